"""Two ranks write to one place, each under a lock that it shares with the other."""
# ranks: 3
# warning: buffer-in-use
# warned ranks: 1 2

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
window = MPI.Win.Allocate(8, 8, comm=comm)
value = np.full(1, comm.rank, dtype="f8")
kind = MPI.LOCK_SHARED  # fixed: kind = MPI.LOCK_EXCLUSIVE
comm.Barrier()
if comm.rank:
    window.Lock(0, kind)
    window.Put(value, 0)  # <- here
    window.Unlock(0)
comm.Barrier()
window.Free()
