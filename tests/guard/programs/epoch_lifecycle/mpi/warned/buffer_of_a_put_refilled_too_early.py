"""The array of a Put gets its next values before the fence that completes the Put."""
# ranks: 2
# warning: buffer-in-use
# warned ranks: 0 1

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
window = MPI.Win.Allocate(8, 8, comm=comm)
value = np.full(1, comm.rank, dtype="f8")
window.Fence()
window.Put(value, 1 - comm.rank)  # <- here
# fixed: window.Fence()
value += 10
window.Fence()
window.Free()
