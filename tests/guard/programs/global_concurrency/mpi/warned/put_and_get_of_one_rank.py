"""A rank puts a value and gets it back in the same epoch, before the fence that would bring it there."""
# ranks: 2
# warning: buffer-in-use
# warned ranks: 1

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
window = MPI.Win.Allocate(8, 8, comm=comm)
sent, seen = np.full(1, 7.0), np.zeros(1)
window.Fence()
if comm.rank == 1:
    window.Put(sent, 0)  # <- here
# fixed: window.Fence()
if comm.rank == 1:
    window.Get(seen, 0)
window.Fence()
window.Free()
