"""All ranks put into the window of rank 0 in one epoch, each into a place of its own."""
# ranks: 4

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
window = MPI.Win.Allocate(8 * comm.size, 8, comm=comm)
memory = np.frombuffer(window.tomemory(), dtype="f8")
for step in range(3):
    window.Fence()
    window.Put(np.full(1, 10 * step + comm.rank, dtype="f8"), 0, target=comm.rank)
    window.Fence()
    if comm.rank == 0:
        print(step, memory)
    comm.Barrier()
window.Free()
