"""Rank 1 has twice as many values, as with a last batch of another length."""
# ranks: 4
# finding: mismatch count
# out of line: 1
# cause: shape

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
for step in range(3):
    length = 8 if comm.rank == 1 and step == 2 else 4  # fixed: length = 4
    mine, total = np.ones(length), np.zeros(length)
    comm.Allreduce(mine, total)  # <- here
print("rank", comm.rank, total)
