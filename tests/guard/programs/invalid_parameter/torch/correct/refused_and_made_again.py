"""Torch refuses a call on one rank, or on all at different moments; each time the ranks agree on what comes next."""
# ranks: 3

import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
received = [torch.zeros(2) for _ in range(3)]
for _ in range(3):
    try:
        dist.reduce_scatter(torch.zeros(2), received[:2] if rank == 1 else received)
    except (ValueError, RuntimeError) as error:
        print(rank, type(error).__name__)
        dist.reduce_scatter(torch.zeros(2), received)
time.sleep(0.5 * (rank == 2))
try:
    dist.all_reduce("not a tensor")
except TypeError:
    value = torch.full((3,), float(rank))
    dist.broadcast(value, 0)
    print(rank, value.tolist())
dist.barrier()
dist.destroy_process_group()
