"""Functional collectives: one rank gathers what the others add up."""
# ranks: 3
# finding: mismatch operation
# out of line: 1
# cause: rank-conditional-call

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.group.WORLD
value = torch.ones(8)
value = functional.all_reduce(value, "sum", world)
if rank == 1:  # fixed: if False:
    value = functional.all_gather_single(value, 0, world)  # <- here
    print("gathered", value.sum().item())
else:
    value = functional.all_reduce(value, "sum", world)
print("rank", rank, value.sum().item())
dist.destroy_process_group()
