"""All ranks put the same value into one place: whichever comes last, the same is there. Others only read, or update."""
# ranks: 4

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
window = MPI.Win.Allocate(24, 8, comm=comm)
memory = np.frombuffer(window.tomemory(), dtype="f8")
memory[:] = 0
one, seen, before = np.ones(1), np.zeros(2), np.zeros(1)
window.Fence()
window.Put(one, 0)
window.Get(seen[1:], 0, target=1)
window.Accumulate(one, 0, target=2)
window.Fence()
window.Get_accumulate(one, before, 0, target=2, op=MPI.NO_OP)
window.Accumulate(one, 0, target=2, op=MPI.MAX)
window.Fence()
if comm.rank == 0:
    print(memory)
window.Free()
