"""The script sets limits of its own, and deals with what happens when they are passed."""
# ranks: 2

import time
from datetime import timedelta

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=30))
rank = dist.get_rank()
short = dist.new_group(timeout=timedelta(seconds=1))
watched, posted = dist.new_group(), dist.new_group()
if rank == 0:
    try:
        dist.monitored_barrier(group=watched, timeout=timedelta(seconds=0.5))
    except RuntimeError:
        print("rank 1 is late, as expected")
    work = dist.all_reduce(torch.ones(4), group=posted, async_op=True)
    try:
        work.wait(timedelta(seconds=0.5))
    except RuntimeError:
        print("nobody adds up with rank 0, as expected")
    try:
        dist.all_reduce(torch.ones(4), group=short)
    except RuntimeError:
        print("nor within the limit of the group")
else:
    time.sleep(3)
for wrong in ("not a tensor", None):
    try:
        dist.all_reduce(wrong)
    except (TypeError, AttributeError, ValueError, RuntimeError):
        print("rank", rank, "was told")
try:
    raise OSError(28, "caught, so of no concern")
except OSError as error:
    print("rank", rank, error)
value = torch.ones(1)
dist.all_reduce(value)
print("rank", rank, value.item())
dist.destroy_process_group()
