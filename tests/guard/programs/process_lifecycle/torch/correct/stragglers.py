"""Ranks that sleep, compute or write while others wait; barriers at different lines; one that works on alone."""
# ranks: 2

import os
import time
from datetime import timedelta

import torch
import torch.distributed as dist

if os.environ["RANK"] == "1":
    time.sleep(0.7)  # late at the very first meeting
dist.init_process_group("gloo", timeout=timedelta(seconds=20))
rank = dist.get_rank()


def until(seconds, work):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        work()


if rank == 0:
    time.sleep(1.5)
dist.barrier()
if rank == 1:
    until(0.6, lambda: sum(range(1000)))
dist.all_reduce(torch.ones(1))
if rank == 0:
    until(0.6, lambda: torch.ones(100, 100) @ torch.ones(100, 100))
    with open("written", "wb") as file:
        until(0.4, lambda: (file.write(bytes(1 << 16)), file.flush(), os.fsync(file.fileno())))
    dist.barrier()  # another line,
else:
    dist.barrier()  # the same barrier
if rank == 0:  # a root far ahead of those it sends to
    for _step in range(50):
        dist.broadcast(torch.ones(10), src=0)
else:
    for _step in range(50):
        time.sleep(0.01)
        dist.broadcast(torch.ones(10), src=0)
print(f"rank {rank} is through\n", end="", flush=True)
dist.destroy_process_group()
if rank == 0:
    time.sleep(1.0)
    print("a summary, long after the others have left")
