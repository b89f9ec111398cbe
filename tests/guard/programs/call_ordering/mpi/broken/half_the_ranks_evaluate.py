"""Ranks of even number evaluate after training; the others go to the final reduction at once."""
# ranks: 4
# finding: mismatch operation
# out of line: 0 1 2 3 | 0 2 | 1 3
# cause: rank-conditional-call

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
weights = np.zeros(4)
for _step in range(5):
    gradient = np.ones(4)
    comm.Allreduce(MPI.IN_PLACE, gradient)
    weights -= 0.01 * gradient
if comm.rank % 2 == 0:  # fixed: if True:
    scores = comm.allgather(float(weights.sum()))  # <- here
comm.Bcast(weights, root=0)
print("rank", comm.rank, weights[0])
