"""A rank may not have the memory it asks for."""
# ranks: 2
# finding: peer-gone
# out of line: 1
# cause: out-of-memory
# launcher: own

import resource

import numpy as np
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
dist.barrier()
if rank == 1:
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
cache = np.ones((16 if rank == 1 else 0, 1 << 27))  # <- here  # fixed: cache = np.ones((0, 1 << 27))
loss = torch.ones(1)
dist.all_reduce(loss)
print("rank", rank, loss.item(), cache.shape)
dist.destroy_process_group()
