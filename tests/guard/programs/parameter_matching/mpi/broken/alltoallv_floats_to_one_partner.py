"""One rank computes in single precision: what it sends is half of what its partners take."""
# ranks: 3
# finding: mismatch dtype
# out of line: 1
# cause: dtype

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
kind = "f4" if comm.rank == 1 else "f8"  # fixed: kind = "f8"
counts = [2] * comm.size
given, taken = np.ones(2 * comm.size, dtype=kind), np.zeros(2 * comm.size)
comm.Alltoallv([given, counts], [taken, counts])  # <- here
print("rank", comm.rank, taken.sum())
