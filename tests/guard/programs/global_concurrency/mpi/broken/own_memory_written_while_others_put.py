"""Rank 0 stores into its own window while rank 1 puts into it."""
# ranks: 2
# not found: what Python code writes to its own memory is not seen, only what calls use

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
memory = np.zeros(2)
window = MPI.Win.Create(memory, 8, comm=comm)
window.Fence()
if comm.rank == 1:
    window.Put(np.ones(1), 0)
# fixed: window.Fence()
if comm.rank == 0:
    memory[0] = 5.0  # <- here
window.Fence()
window.Free()
