"""Rank 1 ends without giving back the lock of rank 0, which waits for it."""
# ranks: 2
# finding: peer-gone
# out of line: 1
# cause: lock-not-released

import sys

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
window = MPI.Win.Allocate(8, 8, comm=comm)
value = np.zeros(1)
if comm.rank == 1:
    window.Lock(0)
    window.Get(value, 0)
    window.Flush(0)
    # fixed: window.Unlock(0)
    comm.send("done", dest=0)
    sys.exit(0)  # fixed: pass
else:
    comm.recv(source=1)
    window.Lock(0)  # <- here
    window.Get(value, 0)
    window.Unlock(0)  # <- here
window.Free()
