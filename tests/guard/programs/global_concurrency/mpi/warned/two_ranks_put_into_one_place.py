"""Ranks 1 and 2 put into the same place of rank 0 in one epoch: which value stays depends on timing."""
# ranks: 3
# warning: buffer-in-use
# warned ranks: 1 2

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
window = MPI.Win.Allocate(24, 8, comm=comm)
value = np.full(1, comm.rank, dtype="f8")
window.Fence()
if comm.rank:
    window.Put(value, 0, target=0)  # <- here  # fixed: window.Put(value, 0, target=comm.rank)
window.Fence()
window.Free()
