"""The rank with the best score broadcasts its weights, but each rank compares its own scores only."""
# ranks: 3
# finding: mismatch root
# cause: root

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
scores = np.zeros(comm.size)
scores[comm.rank] = 0.5 + 0.1 * comm.rank
# fixed: comm.Allreduce(MPI.IN_PLACE, scores)
best = int(scores.argmax())
weights = np.full(8, float(comm.rank))
comm.Bcast(weights, root=best)  # <- here
print("rank", comm.rank, weights[0])
