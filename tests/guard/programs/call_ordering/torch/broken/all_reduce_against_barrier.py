"""Rank 1 calls barrier where the others add up their losses."""
# ranks: 2
# finding: mismatch operation
# out of line: 0 1 | 1
# cause: rank-conditional-call
# launcher: own

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
loss = torch.ones(4) * dist.get_rank()
dist.all_reduce(loss)
if dist.get_rank() == 1:  # fixed: if False:
    dist.barrier()  # <- here
else:
    dist.all_reduce(loss)
print("rank", dist.get_rank(), loss.tolist())
dist.destroy_process_group()
