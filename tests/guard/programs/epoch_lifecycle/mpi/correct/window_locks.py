"""Passive target: exclusive and shared locks, many at one target, flushes, Lock_all, and a slow holder."""
# ranks: 4

import time

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
window = MPI.Win.Allocate(8 * comm.size, 8, comm=comm)
memory = np.frombuffer(window.tomemory(), dtype="f8")
window.Lock(comm.rank)
memory[:] = 0
window.Unlock(comm.rank)
comm.Barrier()
one, got = np.ones(1), np.zeros(1)
for _ in range(5):
    window.Lock(0)
    window.Accumulate(one, 0, target=0)
    if comm.rank == 1:
        time.sleep(0.15)  # the others wait for the lock
    window.Unlock(0)
comm.Barrier()
window.Lock(0, MPI.LOCK_SHARED)
window.Get(got, 0, target=0)
window.Flush(0)
comm.Barrier()  # all hold it at one time
window.Flush_local(0)
window.Unlock(0)
window.Lock_all()
window.Fetch_and_op(one, np.zeros(1), (comm.rank + 1) % comm.size, target_disp=1)
window.Flush_all()
request = window.Rput(one, (comm.rank + 1) % comm.size, target=2)
request.Wait()
window.Flush_local_all()
window.Unlock_all()
comm.Barrier()
window.Lock(comm.rank)
print("rank", comm.rank, got[0], memory[1], memory[2])
window.Unlock(comm.rank)
window.Free()
