"""Compares the ids that come back with those that were handed in."""

import importlib
import sys

import torch
import torch.distributed as dist

program = importlib.import_module(sys.argv[1])
dist.init_process_group("gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()
gathered = program.gather(*program.batch(rank))
given = torch.cat([program.batch(other)[0] for other in range(world_size)])
wrong = (gathered != given).nonzero().flatten().tolist()
if rank == 0 and wrong:
    first = wrong[0]
    print(
        f"seen: {len(wrong)} of {len(given)} ids changed on their way: {given[first]} came back as {gathered[first]}; "
        f"{len(given)} different ids became {len(gathered.unique())}"
    )
dist.destroy_process_group()
