"""A rank without data leaves with exit code 0."""
# ranks: 2
# finding: peer-gone
# out of line: 1
# cause: early-exit

import sys

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
dist.barrier()
data = torch.ones(0 if rank == 1 else 4)
if len(data) == 0:
    sys.exit(0)  # <- here  # fixed: pass
loss = data.sum()
dist.all_reduce(loss)
print("rank", rank, loss.item())
dist.destroy_process_group()
