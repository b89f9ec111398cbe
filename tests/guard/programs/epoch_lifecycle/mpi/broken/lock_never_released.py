"""Rank 0 takes the lock of rank 2 and forgets it; rank 1 waits for the same lock."""
# ranks: 3
# finding: deadlock | peer-gone
# out of line: 0
# cause: lock-not-released

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
window = MPI.Win.Allocate(8, 8, comm=comm)
one = np.ones(1)
if comm.rank == 0:
    window.Lock(2)
    window.Put(one, 2)
    window.Flush(2)
    # fixed: window.Unlock(2)
comm.Barrier()
if comm.rank == 1:
    window.Lock(2)  # <- here
    window.Put(one, 2)
    window.Flush(2)  # <- here
    window.Unlock(2)
comm.Barrier()
window.Free()
