"""The first two ranks average their statistics in a group of their own."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
mean = torch.tensor([float(rank)])
if rank < 2:
    pair = dist.new_group([0, 1])
    dist.all_reduce(mean, group=pair)
dist.all_reduce(mean)
print(f"rank {rank}: sum {mean.item():.0f}")
dist.destroy_process_group()
