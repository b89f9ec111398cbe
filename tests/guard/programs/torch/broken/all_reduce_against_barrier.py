"""Rank 1 calls barrier where the others add up their losses."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
loss = torch.ones(4) * dist.get_rank()
dist.all_reduce(loss)
if dist.get_rank() == 1:
    dist.barrier()  # <- here
else:
    dist.all_reduce(loss)
print("rank", dist.get_rank(), loss.tolist())
dist.destroy_process_group()
