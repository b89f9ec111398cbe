"""Ranks of one node write to and read from shared memory without a barrier between."""
# ranks: 2
# not found: what Python code does with memory is not seen

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
window = MPI.Win.Allocate_shared(8 if comm.rank == 0 else 0, 8, comm=comm)
memory = np.frombuffer(window.Shared_query(0)[0], dtype="f8")
window.Lock_all()
if comm.rank == 0:
    memory[0] = 1.0  # <- here
# fixed: window.Sync(); comm.Barrier(); window.Sync()
seen = memory[0]
window.Unlock_all()
window.Free()
