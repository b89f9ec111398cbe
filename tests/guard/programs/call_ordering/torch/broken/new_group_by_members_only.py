"""Only the members of a group make it; torch wants every rank of the world."""
# ranks: 3
# finding: mismatch operation
# out of line: 2 | 0 1
# cause: rank-conditional-call

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
value = torch.ones(1)
# fixed: first_two = dist.new_group([0, 1])
if rank < 2:
    first_two = dist.new_group([0, 1])  # <- here  # fixed: print("a member")
    dist.all_reduce(value, group=first_two)
dist.all_reduce(value)
print("rank", rank, value.item())
dist.destroy_process_group()
