"""One rank works the sizes out by itself, and rounds another way."""
# ranks: 4
# finding: mismatch count
# out of line: 2
# cause: splits

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
counts = [10 * (r + 1) // comm.size - 10 * r // comm.size for r in range(comm.size)]
mine = np.full(counts[comm.rank], comm.rank, dtype="f8")
if comm.rank == 2:
    counts = [3, 3, 3, 1]  # fixed: counts = list(counts)
everything = np.zeros(10)
comm.Allgatherv(mine, [everything, counts])  # <- here
print("rank", comm.rank, everything.sum())
