"""Two ranks accumulate into one place by different operators in one epoch, whose order is open."""
# ranks: 3
# not found: Accumulate is not recorded, so nothing is known of the places it reaches for

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
