"""The last rank hands in one sample less."""
# ranks: 4
# finding: mismatch count
# out of line: 3
# cause: shape

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
comm.Barrier()
length = 3 if comm.rank == comm.size - 1 else 4  # fixed: length = 4
mine = np.full(length, comm.rank, dtype="i8")
everything = np.zeros(comm.size * length, dtype="i8")
comm.Allgather(mine, everything)  # <- here
print("rank", comm.rank, everything)
