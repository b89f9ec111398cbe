"""Fences, groups and locks take turns on one window, each epoch ended before the next begins."""
# ranks: 3

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
window = MPI.Win.Allocate(8, 8, comm=comm)
memory = np.frombuffer(window.tomemory(), dtype="f8")
world = comm.Get_group()
one = np.ones(1)
memory[:] = 0
for _ in range(3):
    window.Fence()
    window.Accumulate(one, right)
    window.Fence(MPI.MODE_NOSUCCEED)
    window.Post(world.Incl([left]))
    window.Start(world.Incl([right]))
    window.Accumulate(one, right)
    window.Complete()
    window.Wait()
    comm.Barrier()
    window.Lock(right)
    window.Accumulate(one, right)
    window.Unlock(right)
    comm.Barrier()
window.Lock(comm.rank)
print("rank", comm.rank, memory[0])
window.Unlock(comm.rank)
window.Free()
