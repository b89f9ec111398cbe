"""A rank that is not the root brings a list to be scattered."""
# ranks: 3
# finding: peer-gone
# out of line: 1
# cause: exception

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
brings = rank < 2  # fixed: brings = rank == 0
parts = [torch.ones(2) for _ in range(3)] if brings else None
mine = torch.empty(2)
dist.scatter(mine, parts, src=0)  # <- here
dist.barrier()
dist.destroy_process_group()
