"""Rank 1's first attempt to make the group is refused, and it tries again; then a library of it makes one more."""
# ranks: 3

import contextlib
import os

import torch
import torch.distributed as dist

if os.environ["RANK"] == "1":
    with contextlib.suppress(TypeError):
        dist.init_process_group("gloo", timeout=5)  # must be a timedelta
dist.init_process_group("gloo")
if dist.get_rank() == 2:
    with contextlib.suppress(ValueError):
        dist.init_process_group("gloo")
total = torch.ones(2)
dist.all_reduce(total)
rank = dist.get_rank()
dist.destroy_process_group()
# at another place: others may come back to the port of the first group while rank 0 still gives it up
again = f"file://{os.getcwd()}/again.{os.getppid()}"
dist.init_process_group("gloo", init_method=again, rank=rank, world_size=int(os.environ["WORLD_SIZE"]))
dist.all_reduce(total)
print(f"{dist.get_rank()} {total.tolist()}\n", end="", flush=True)
dist.destroy_process_group()
