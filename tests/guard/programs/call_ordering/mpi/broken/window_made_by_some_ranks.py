"""Rank 1 has no data and makes no window."""
# ranks: 3
# finding: mismatch operation
# out of line: 1
# cause: rank-conditional-call

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
data = np.zeros(4)
window = None
if comm.rank != 1:  # fixed: if True:
    window = MPI.Win.Create(data, 8, comm=comm)  # <- here
comm.Barrier()
if window is not None:
    window.Free()
