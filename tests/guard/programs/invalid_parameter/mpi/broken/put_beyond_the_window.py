"""Rank 0 puts four values where the window of rank 1 has room for two."""
# ranks: 2
# finding: argument count
# out of line: 0
# cause: truncated
# says: goes to byte 32, and the window has 16 bytes there

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
window = MPI.Win.Allocate(16, 8, comm=comm)
window.Fence()
if comm.rank == 0:
    window.Put(np.ones(4), 1)  # <- here  # fixed: window.Put(np.ones(2), 1)
window.Fence()
window.Free()
