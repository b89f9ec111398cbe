"""Rank 1 adds four values to a window of two, and has room for the two that it gets back."""
# ranks: 2
# finding: argument count
# out of line: 1
# cause: truncated
# says: goes to byte 32, and the window has 16 bytes there

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
window = MPI.Win.Create(np.zeros(2), disp_unit=8, comm=comm)
before = np.zeros(2)
window.Fence()
if comm.rank == 1:
    window.Get_accumulate(np.ones(4), before, 0)  # <- here  # fixed: window.Get_accumulate(np.ones(2), before, 0)
window.Fence()
window.Free()
print("rank", comm.rank, before[0])
