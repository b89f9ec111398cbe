"""Ranks read a place, change it and write it back, each under an exclusive lock of its own turn."""
# ranks: 3

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
window = MPI.Win.Allocate(8, 8, comm=comm)
memory = np.frombuffer(window.tomemory(), dtype="f8")
window.Lock(comm.rank)
memory[:] = 0
window.Unlock(comm.rank)
comm.Barrier()
value = np.zeros(1)
for _ in range(4):
    window.Lock(0)
    window.Get(value, 0)
    window.Flush(0)
    value += 1
    window.Put(value, 0)
    window.Unlock(0)
comm.Barrier()
if comm.rank == 0:
    window.Lock(0, MPI.LOCK_SHARED)
    print("sum", memory[0])
    window.Unlock(0)
window.Free()
