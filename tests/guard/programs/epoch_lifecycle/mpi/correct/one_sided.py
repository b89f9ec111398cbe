"""Windows: Put, Get, Accumulate and fences; rank 0 waits in a lock for what others put."""
# ranks: 3

import time

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
window = MPI.Win.Allocate(8 * comm.size, 8, comm=comm)
memory = np.frombuffer(window.tomemory(), dtype="f8")
memory[:] = 0
window.Fence()
window.Put(np.full(1, comm.rank + 1.0), (comm.rank + 1) % comm.size, target=comm.rank)
window.Fence()
window.Accumulate(np.ones(1), 0, target=0)
window.Fence()
if comm.rank == 1:
    time.sleep(0.7)
window.Lock(0)
window.Accumulate(np.ones(1), 0, target=0)
window.Unlock(0)
comm.Barrier()
window.Fence()
print("rank", comm.rank, memory)
window.Free()
