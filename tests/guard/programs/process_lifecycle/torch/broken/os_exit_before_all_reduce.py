"""A rank leaves at once, without clean-up, with exit code 0."""
# ranks: 2
# finding: peer-gone
# out of line: 1
# cause: early-exit
# launcher: own

import os

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
dist.barrier()
if rank == 1:
    os._exit(0)  # <- here  # fixed: pass
loss = torch.ones(1)
dist.all_reduce(loss)
print("rank", rank, loss.item())
dist.destroy_process_group()
