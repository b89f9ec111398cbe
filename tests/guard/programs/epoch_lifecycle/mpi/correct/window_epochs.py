"""Epochs between groups: a ring in which all post and start, a star, and late partners."""
# ranks: 4

import time

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
window = MPI.Win.Allocate(8, 8, comm=comm)
memory = np.frombuffer(window.tomemory(), dtype="f8")
memory[:] = 0
everybody = comm.Get_group()
right, left = everybody.Incl([(comm.rank + 1) % comm.size]), everybody.Incl([(comm.rank - 1) % comm.size])
for step in range(4):
    if step == 2 and comm.rank == 1:
        time.sleep(0.6)
    window.Post(left)
    window.Start(right)
    window.Put(np.full(1, comm.rank + step, dtype="f8"), (comm.rank + 1) % comm.size)
    window.Complete()
    window.Wait()
print("rank", comm.rank, memory[0])
for root in range(comm.size):
    if comm.rank == root:
        window.Post(everybody.Excl([root]))
        window.Wait()
    else:
        if comm.rank == 3:
            time.sleep(0.1)
        window.Start(everybody.Incl([root]))
        window.Accumulate(np.ones(1), root)
        window.Complete()
    comm.Barrier()
print("rank", comm.rank, memory[0])
window.Free()
