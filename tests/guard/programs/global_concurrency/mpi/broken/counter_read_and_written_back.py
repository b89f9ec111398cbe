"""Ranks draw numbers from a counter: they read it, add one, and write it back, so that two may get the same."""
# ranks: 3
# not found: each access has a lock of its own, so none conflicts; that two of them belong together is not known

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
window = MPI.Win.Allocate(8, 8, comm=comm)
number = np.zeros(1)
comm.Barrier()
if comm.rank:
    window.Lock(0)
    window.Get(number, 0)
    window.Unlock(0)  # <- here  # fixed: window.Flush(0)
    window.Lock(0)  # fixed: pass
    window.Put(number + 1, 0)
    window.Unlock(0)
comm.Barrier()
window.Free()
