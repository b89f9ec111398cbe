"""Rank 1 skips a batch without a label, and the reduction with it."""
# ranks: 3
# finding: mismatch operation
# out of line: 1
# cause: skipped-call

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
gradient, total = np.ones(4), np.zeros(4)
for step in range(6):
    if comm.rank == 1 and step == 2:
        continue  # fixed: gradient[:] = 0
    comm.Allreduce(gradient, total)  # <- here
comm.Bcast(total, root=0)
print("rank", comm.rank, total)
