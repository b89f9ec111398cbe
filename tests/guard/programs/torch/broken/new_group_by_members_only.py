"""Only the members of a group make it; torch wants every rank of the world."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
value = torch.ones(1)
if rank < 2:
    first_two = dist.new_group([0, 1])  # <- here
    dist.all_reduce(value, group=first_two)
dist.all_reduce(value)
print("rank", rank, value.item())
dist.destroy_process_group()
