"""Rank 1 puts what rank 2 gets in the same epoch."""
# ranks: 3
# warning: buffer-in-use
# warned ranks: 1 2

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
window = MPI.Win.Allocate(8, 8, comm=comm)
value = np.full(1, comm.rank, dtype="f8")
window.Fence()
if comm.rank == 1:
    window.Put(value, 0)  # <- here
# fixed: window.Fence()
if comm.rank == 2:
    window.Get(value, 0)
window.Fence()
window.Free()
