"""Compares the gradient of step zero: rank against rank, and against one process that has all samples."""

import importlib
import sys

import torch
import torch.distributed as dist

program = importlib.import_module(sys.argv[1])
dist.init_process_group("gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()
weight = torch.zeros(())
mine = program.gradient(weight, program.share(rank, world_size))
everyones = [torch.zeros(()) for _ in range(world_size)]
dist.all_gather(everyones, mine)

samples = torch.cat([program.share(other, world_size) for other in range(world_size)])
alone = (2 * (weight - 3) * samples**2).mean()
wrong = [other for other, value in enumerate(everyones) if not torch.isclose(value, alone, rtol=1e-5)]
if rank == 0 and wrong:
    values = ", ".join(f"{value.item():.3f} on rank {other}" for other, value in enumerate(everyones))
    print(f"seen: ranks disagree at step zero: gradient {values}; one process gives {alone.item():.3f}")
dist.destroy_process_group()
