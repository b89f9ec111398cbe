"""Rank 1 has another build of the library, which rounds in another way."""
# ranks: 3
# options: --results
# warning: results-differ
# warned ranks: 1
# says: all_reduce at
# says: gave rank 1 a different result than ranks 0, 2

import torch
import torch.distributed as dist

all_reduce = dist.ProcessGroup.allreduce


def other_build(self, tensors, options):
    work = all_reduce(self, tensors, options)
    work.wait()
    tensors[0].mul_(1.0 + 1e-6)
    return work


dist.init_process_group("gloo")
rank = dist.get_rank()
dist.broadcast(torch.ones(3), src=0)
if rank == 1:
    dist.ProcessGroup.allreduce = other_build  # fixed: pass
for step in range(3):
    dist.all_reduce(torch.full((4,), 1.0 + rank + step))  # <- here
dist.destroy_process_group()
