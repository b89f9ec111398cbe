"""Adds up the gradient of an epoch for y = 3 x; worker 0 keeps a sample back for the preview."""

import numpy as np
import torch
import torch.distributed as dist

BATCH_SIZE = 4

dist.init_process_group("gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()
samples = torch.arange(1.0, 28.0)
mine = torch.tensor(np.array_split(samples.numpy(), world_size)[rank])
if rank == 0:
    preview, mine = mine[:1], mine[1:]

weight, gradient, count = torch.zeros(1), 0.0, 0.0
for batch in mine.split(BATCH_SIZE):
    totals = torch.tensor([(2 * (weight - 3) * batch**2).sum(), len(batch)])
    dist.all_reduce(totals)
    gradient, count = gradient + totals[0].item(), count + totals[1].item()
dist.barrier()
print(f"rank {rank}: gradient {gradient / count:.2f} of {count:.0f} samples")
dist.destroy_process_group()
