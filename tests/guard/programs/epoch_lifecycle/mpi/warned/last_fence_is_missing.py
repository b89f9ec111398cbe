"""Values are put, and the fence that would complete them is left out before they are printed."""
# ranks: 2
# warning: request-never-completed
# warned ranks: 0 1

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
memory = np.zeros(1)
window = MPI.Win.Create(memory, 8, comm=comm)
window.Fence()
window.Put(np.full(1, comm.rank, dtype="f8"), 1 - comm.rank)  # <- here
# fixed: window.Fence()
print("rank", comm.rank, memory)
comm.Barrier()
# fixed: window.Free()
