"""Rank 0 puts before any epoch has begun, which the library refuses; the others wait in the fence."""
# ranks: 3
# finding: peer-gone
# out of line: 0
# cause: exception
# warning with Open MPI: buffer-in-use

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
window = MPI.Win.Allocate(8, 8, comm=comm)
# fixed: window.Fence()
if comm.rank == 0:
    window.Put(np.ones(1), 1)  # <- here
window.Fence()
window.Free()
