"""A rank asks torch for more memory than there is."""
# ranks: 2
# finding: peer-gone
# out of line: 1
# cause: out-of-memory

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
size = 1 << 50 if rank == 1 else 4  # fixed: size = 4
dist.all_reduce(torch.ones(1))
cache = torch.empty(size)  # <- here
dist.all_reduce(cache)
print("rank", rank, "done")
dist.destroy_process_group()
