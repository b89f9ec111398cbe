"""A plain torch.distributed script that times calls on gloo; rank 0 prints microseconds per call as JSON."""

import json
import statistics
import time

import torch
import torch.distributed as dist

BLOCKS, CALLS = 10, 40
torch.set_num_threads(1)
dist.init_process_group("gloo")


def time_call(call, calls=CALLS):
    """Return the median over blocks of the time of one call."""
    for _ in range(20):
        call()
    figures = []
    for _ in range(BLOCKS):
        dist.barrier()
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        figures.append((time.perf_counter() - begin) / calls * 1e6)
    return statistics.median(figures)


def all_reduce(num_bytes):
    """Return a call that sums this many bytes."""
    tensor = torch.zeros(num_bytes // 8, dtype=torch.float64)
    return lambda: dist.all_reduce(tensor)


figures = {
    "barrier": time_call(dist.barrier),
    "all-reduce 8 B": time_call(all_reduce(8)),
    "all-reduce 1 KiB": time_call(all_reduce(1024)),
    "all-reduce 1 MiB": time_call(all_reduce(1 << 20), calls=10),
}
if dist.get_rank() == 0:
    print(json.dumps(figures), flush=True)
dist.barrier()
dist.destroy_process_group()
