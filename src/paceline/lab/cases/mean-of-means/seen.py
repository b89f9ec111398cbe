"""Compares the gradient with that of one process that has all samples."""

import importlib
import sys

import torch
import torch.distributed as dist

program = importlib.import_module(sys.argv[1])
dist.init_process_group("gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()
together = program.gradient(torch.ones(()), program.batch(rank)).item()
samples = torch.cat([program.batch(other) for other in range(world_size)])
alone = samples.mean().item()  # the gradient of the mean of weight * samples
if rank == 0 and abs(together - alone) > 1e-5 * abs(alone):
    print(f"seen: gradient {together:.3f}, one process gives {alone:.3f}: wrong by a factor of {together / alone:.3f}")
dist.destroy_process_group()
