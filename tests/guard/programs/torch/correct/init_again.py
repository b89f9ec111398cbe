"""Rank 1's first attempt to make the group is refused, and it tries again; then a library of it makes one more."""

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
dist.destroy_process_group()
dist.init_process_group("gloo")
dist.all_reduce(total)
print(f"{dist.get_rank()} {total.tolist()}\n", end="", flush=True)
dist.destroy_process_group()
