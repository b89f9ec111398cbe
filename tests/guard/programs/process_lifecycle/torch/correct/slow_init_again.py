"""Rank 1's first attempt to make the group is refused; then all ranks are inside the call for a while."""

import contextlib
import os
import time

import torch
import torch.distributed as dist


def meet_slowly(url, **options):
    time.sleep(1.5)
    yield from dist.rendezvous(url.replace("slow:", "env:"), **options)


dist.register_rendezvous_handler("slow", meet_slowly)
rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
if rank == 1:
    with contextlib.suppress(TypeError):
        dist.init_process_group("gloo", timeout=5, init_method="slow://", rank=rank, world_size=world_size)
for _round in range(2):
    dist.init_process_group("gloo", init_method="slow://", rank=rank, world_size=world_size)
    total = torch.ones(2)
    dist.all_reduce(total)
    print(f"{dist.get_rank()} {total.tolist()}\n", end="", flush=True)
    dist.destroy_process_group()
