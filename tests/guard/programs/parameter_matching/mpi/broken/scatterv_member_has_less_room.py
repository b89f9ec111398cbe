"""The root deals 10 rows to 3 ranks; a member makes room for the rounded share."""
# ranks: 3
# finding: mismatch count
# out of line: 0 1
# cause: splits
# says: rank 0 sends 4 elements to rank 1

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
counts = [3, 4, 3]
rows = [np.arange(10, dtype="i8"), counts] if comm.rank == 0 else None
mine = np.empty(10 // comm.size, dtype="i8")  # fixed: mine = np.empty(counts[comm.rank], dtype="i8")
comm.Scatterv(rows, mine, root=0)  # <- here
print("rank", comm.rank, mine.tolist())
