"""A plain mpi4py script that times calls; rank 0 prints microseconds per call as JSON."""

import json
import statistics
import time

import numpy as np
from mpi4py import MPI

BLOCKS, CALLS = 30, 300
comm = MPI.COMM_WORLD


def time_call(call, calls=CALLS):
    """Return the median over blocks of the time of one call."""
    for _ in range(50):
        call()
    figures = []
    for _ in range(BLOCKS):
        comm.Barrier()
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        figures.append((time.perf_counter() - begin) / calls * 1e6)
    return statistics.median(figures)


def all_reduce(num_bytes):
    """Return a call that sums this many bytes."""
    mine, total = np.ones(num_bytes // 8), np.empty(num_bytes // 8)
    return lambda: comm.Allreduce(mine, total)


figures = {
    "barrier": time_call(comm.Barrier),
    "all-reduce 8 B": time_call(all_reduce(8)),
    "all-reduce 1 KiB": time_call(all_reduce(1024)),
    "all-reduce 1 MiB": time_call(all_reduce(1 << 20), calls=10),
}
if comm.rank == 0:
    print(json.dumps(figures), flush=True)
