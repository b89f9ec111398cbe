"""The rank with the best loss is the root, but the last rank has looked at its own losses."""
# ranks: 4
# finding: mismatch root
# out of line: 3
# cause: root

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
comm.Barrier()
losses = np.array([0.1, 0.4, 0.5])
if comm.rank == comm.size - 1:
    losses[0] = 9.0
weights = np.full(8, comm.rank, dtype="f4")
best = int(losses.argmin())  # fixed: best = comm.bcast(int(losses.argmin()))
comm.Bcast(weights, root=best)  # <- here
print("rank", comm.rank, weights[0])
