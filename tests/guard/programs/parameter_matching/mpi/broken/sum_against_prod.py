"""Rank 0 multiplies what the others add; both libraries end with exit code 0 and wrong numbers."""
# ranks: 2
# finding: mismatch reduction
# out of line: 0 1 | 0 | 1
# cause: reduction
# ranks: 7
# out of line: 0

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
comm.Barrier()
mine, total = np.arange(4.0) + comm.rank, np.zeros(4)
how = MPI.PROD if comm.rank == 0 else MPI.SUM  # fixed: how = MPI.SUM
comm.Allreduce(mine, total, op=how)  # <- here
print("rank", comm.rank, total)
