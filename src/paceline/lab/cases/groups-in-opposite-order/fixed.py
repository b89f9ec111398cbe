"""Two groups of the same ranks: one for the model's gradients, one for the data's counts."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
model_group, data_group = dist.new_group([0, 1]), dist.new_group([0, 1])
gradient, count = torch.ones(4), torch.tensor([float(rank)])
work = [(gradient, model_group), (count, data_group)]
for tensor, group in work:
    dist.all_reduce(tensor, group=group)
print(f"rank {rank}: gradient {gradient[0].item():.0f}, count {count.item():.0f}")
dist.destroy_process_group()
