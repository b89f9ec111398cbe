"""One rank drops an invalid sample after it has told how many it has."""
# ranks: 3
# finding: mismatch count
# out of line: 1
# cause: splits

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
mine = np.arange(4.0) if comm.rank == 1 else np.arange(1.0, 5.0)
# fixed: mine = mine[mine > 0]
counts = comm.allgather(mine.size)
mine = mine[mine > 0]
everything = np.zeros(sum(counts))
comm.Allgatherv([mine, MPI.DOUBLE], [everything, counts, MPI.DOUBLE])  # <- here
print("rank", comm.rank, everything.sum())
