"""Rank 0 exchanges ids as integers; its partner sends and takes floats of the same number of bytes."""
# ranks: 2
# finding: mismatch dtype
# out of line: 0 1
# cause: dtype

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
given = [torch.zeros(2), torch.zeros(2)]
taken = [torch.zeros(2), torch.zeros(2)]
if rank == 0:  # fixed: if rank == 2:
    given = [torch.zeros(1, dtype=torch.int64) for _ in given]
    taken = [torch.zeros(1, dtype=torch.int64) for _ in taken]
dist.all_to_all(taken, given)  # <- here
print("rank", rank, taken)
dist.destroy_process_group()
