"""Rank 1 skips a batch without a label, and the reduction with it."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
gradient, total = np.ones(4), np.zeros(4)
for step in range(6):
    if comm.rank == 1 and step == 2:
        continue
    comm.Allreduce(gradient, total)  # <- here
comm.Bcast(total, root=0)
print("rank", comm.rank, total)
