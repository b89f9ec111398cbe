"""Lists of tensors: rank 2 makes room for four rows from everybody, and the others send three.

If rank 2 comes first, torch has refused its lists before anybody could compare them.
"""
# ranks: 3
# finding: mismatch count | peer-gone
# out of line: 2
# cause: splits | exception

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
given = [torch.full((3,), float(rank)) for _ in range(size)]
room = 4 if rank == 2 else 3  # fixed: room = 3
taken = [torch.zeros(room) for _ in range(size)]
dist.all_to_all(taken, given)  # <- here
print("rank", rank, [len(part) for part in taken])
dist.destroy_process_group()
