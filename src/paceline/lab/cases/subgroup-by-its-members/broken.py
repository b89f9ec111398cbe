"""The first two ranks add up their statistics in a group of their own; then all do, in another group."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
total = torch.tensor([float(rank)])
if rank < 2:
    pair = dist.new_group([0, 1])
    dist.all_reduce(total, group=pair)
everyone = dist.new_group()  # so that metrics do not mix with gradients
dist.all_reduce(total, group=everyone)
print(f"rank {rank}: sum {total.item():.0f}")
dist.destroy_process_group()
