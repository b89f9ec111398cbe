"""Rank 0 gives a list of integers and floats, which torch refuses there alone; the other rank waits."""
# ranks: 2
# finding: peer-gone
# out of line: 0
# cause: exception

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
given = [torch.zeros(2), torch.zeros(2)]
if rank == 0:
    given[1] = torch.zeros(1, dtype=torch.int64)  # fixed: given[1] = torch.zeros(2)
taken = [torch.zeros(2), torch.zeros(2)]
dist.all_to_all(taken, given)  # <- here
print("rank", rank, taken)
dist.destroy_process_group()
