"""Rank 0 computes for a while; the others wait for it."""
# ranks: 3

import time

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
if comm.rank == 0:
    end, table = time.monotonic() + 0.7, np.ones((200, 200))
    while time.monotonic() < end:
        table = table @ table
        table /= table.max()
total = np.zeros(1)
comm.Allreduce(np.full(1, comm.rank, dtype="f8"), total)
print("rank", comm.rank, total[0])
