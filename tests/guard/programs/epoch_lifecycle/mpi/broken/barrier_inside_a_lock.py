"""Rank 1 holds the lock of rank 0 and waits in a barrier, to which rank 2 comes only when it has had the lock."""
# ranks: 3
# finding: deadlock
# out of line: 1
# cause: lock-not-released

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
window = MPI.Win.Allocate(8, 8, comm=comm)
value = np.zeros(1)
if comm.rank == 1:
    window.Lock(0)  # <- here
    window.Get(value, 0)
    window.Flush(0)
    # fixed: window.Unlock(0)
    comm.send("locked", dest=2)
elif comm.rank == 2:
    comm.recv(source=1)
    window.Lock(0)  # <- here
    window.Get(value, 0)
    window.Unlock(0)  # <- here
comm.Barrier()
if comm.rank == 1:
    window.Unlock(0)  # fixed: pass
window.Free()
