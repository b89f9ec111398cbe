"""Rank 0 goes first, a generator cleans up, all ranks try a step again, and threads have groups of their own."""
# ranks: 3

import contextlib
import threading

import torch
import torch.distributed as dist


@contextlib.contextmanager
def rank_0_first():
    if rank != 0:
        dist.barrier()
    yield
    if rank == 0:
        dist.barrier()


def batches(number):
    try:
        for size in range(1, number + 1):
            yield torch.full((size,), float(rank))
    finally:
        dist.barrier()


def add_up(group):
    for _ in range(10):
        dist.all_reduce(torch.ones(4), group=group)


dist.init_process_group("gloo")
rank = dist.get_rank()
with rank_0_first():
    loaded = sum(range(5))
for batch in batches(4):
    dist.all_reduce(batch)
for step in range(4):
    for attempt in range(3):
        is_good = torch.tensor([int(not (rank == 1 and step == 2 and attempt == 0))])
        dist.all_reduce(is_good, op=dist.ReduceOp.MIN)
        if is_good.item():
            break
threads = [threading.Thread(target=add_up, args=[dist.new_group()]) for _ in range(3)]
for thread in threads if rank % 2 else reversed(threads):
    thread.start()
for thread in threads:
    thread.join()
print("rank", rank, loaded, "done")
dist.destroy_process_group()
