"""A library makes the group again, which is refused and caught; then ranks reduce different sizes."""
# ranks: 2
# finding: mismatch count
# out of line: 0 1
# cause: shape

import contextlib

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
for _ in range(2):
    with contextlib.suppress(ValueError):
        dist.init_process_group("gloo")
dist.all_reduce(torch.ones(1 if dist.get_rank() == 0 else 3))  # <- here  # fixed: dist.all_reduce(torch.ones(3))
dist.barrier()
dist.destroy_process_group()
