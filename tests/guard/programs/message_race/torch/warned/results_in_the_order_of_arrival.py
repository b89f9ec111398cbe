"""Rank 0 receives from anybody and keeps the results in the order in which they came."""
# ranks: 3
# options: --strict=message-race
# warning: message-race
# warned ranks: 0

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
work = dist.isend(torch.full((1,), float(rank)), dst=0) if rank else None
dist.barrier()
if rank == 0:
    results = [torch.zeros(1) for _ in range(3)]
    for source in (1, 2):
        dist.recv(results[source], src=None)  # <- here  # fixed: dist.recv(results[source], src=source)
else:
    work.wait()
dist.barrier()
dist.destroy_process_group()
