"""Rank 0 makes the window of memory that it has, the others let MPI allocate theirs."""
# ranks: 3
# finding: mismatch operation
# out of line: 0

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
data = np.zeros(4)
if comm.rank == 0:  # fixed: if comm.rank >= 0:
    window = MPI.Win.Create(data, 8, comm=comm)  # <- here
else:
    data[:] = comm.rank
    window = MPI.Win.Allocate(32, 8, comm=comm)
window.Fence()
window.Free()
