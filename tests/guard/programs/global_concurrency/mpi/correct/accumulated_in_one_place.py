"""All ranks add to one place in one epoch, which is what Accumulate is for."""
# ranks: 4

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
window = MPI.Win.Allocate(8, 8, comm=comm)
memory = np.frombuffer(window.tomemory(), dtype="f8")
memory[:] = 0
window.Fence()
for target in range(comm.size):
    window.Accumulate(np.ones(1), target)
window.Fence()
print("rank", comm.rank, memory[0])
window.Free()
