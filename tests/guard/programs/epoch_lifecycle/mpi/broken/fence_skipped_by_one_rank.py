"""Rank 1 has nothing to put in one step, and skips the fence with it."""
# ranks: 3
# finding: deadlock
# out of line: 1
# cause: skipped-call

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
window = MPI.Win.Allocate(8, 8, comm=comm)
window.Fence()
for step in range(4):
    if comm.rank != 1 or step != 2:  # fixed: if True:
        window.Put(np.ones(1), (comm.rank + 1) % comm.size)
        window.Fence()  # <- here
    comm.Barrier()
window.Free()
