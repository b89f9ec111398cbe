"""Two ranks accumulate into one place by different operators in one epoch, whose order is open."""
# ranks: 3
# warning: buffer-in-use
# warned ranks: 1 2

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
window = MPI.Win.Allocate(8, 8, comm=comm)
value = np.full(1, 2.0)
op = MPI.SUM if comm.rank == 1 else MPI.PROD  # fixed: op = MPI.SUM
window.Fence()
if comm.rank:
    window.Accumulate(value, 0, op=op)  # <- here
window.Fence()
window.Free()
