"""A library makes the group again, which is refused and caught; then ranks reduce different sizes."""

import contextlib

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
for _ in range(2):
    with contextlib.suppress(ValueError):
        dist.init_process_group("gloo")
dist.all_reduce(torch.ones(1 if dist.get_rank() == 0 else 3))  # <- here
dist.barrier()
dist.destroy_process_group()
