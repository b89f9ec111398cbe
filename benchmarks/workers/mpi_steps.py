"""A plain mpi4py job of some seconds: a little work and an all-reduce in each step; rank 0 prints figures as JSON."""

import json
import statistics
import time

import numpy as np
from mpi4py import MPI

SECONDS = 5.0
comm = MPI.COMM_WORLD
work = np.ones((120, 120))
mine, total = np.ones(1024), np.empty(1024)
steps, calls = [], []
end = time.perf_counter() + SECONDS
while comm.bcast(time.perf_counter() < end):
    begin = time.perf_counter()
    for _ in range(4):
        work @ work
    middle = time.perf_counter()
    comm.Allreduce(mine, total)
    calls.append((time.perf_counter() - middle) * 1e6)
    steps.append((time.perf_counter() - begin) * 1e6)
if comm.rank == 0:
    print(json.dumps({"step us": statistics.median(steps), "call us": statistics.median(calls)}), flush=True)
