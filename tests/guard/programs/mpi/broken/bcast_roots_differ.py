"""The rank with the best loss is the root, but the last rank has looked at its own losses."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
comm.Barrier()
losses = np.array([0.1, 0.4, 0.5])
if comm.rank == comm.size - 1:
    losses[0] = 9.0
weights = np.full(8, comm.rank, dtype="f4")
comm.Bcast(weights, root=int(losses.argmin()))  # <- here
print("rank", comm.rank, weights[0])
