"""A prepared exchange: one rank prepares it for another number of rows."""
# ranks: 3
# finding: mismatch count
# out of line: 1
# cause: splits

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rows = 3 if comm.rank == 1 else 2  # fixed: rows = 2
counts = [rows] * comm.size
given, taken = np.ones(rows * comm.size), np.zeros(rows * comm.size)
exchange = comm.Alltoallv_init([given, counts], [taken, counts])  # <- here
for _ in range(3):
    exchange.Start()
    exchange.Wait()
print("rank", comm.rank, taken.sum())
exchange.Free()
