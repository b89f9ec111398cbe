"""Rank 1 asks NumPy for more memory than there is; NumPy has its own kind of MemoryError."""
# ranks: 3
# finding: peer-gone
# out of line: 1
# cause: out-of-memory

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
comm.Barrier()
num_rows = 1 << 50 if comm.rank == 1 else 10  # fixed: num_rows = 10
table = np.ones((num_rows, 8))  # <- here
total = comm.allreduce(float(table.sum()))
print("rank", comm.rank, total)
