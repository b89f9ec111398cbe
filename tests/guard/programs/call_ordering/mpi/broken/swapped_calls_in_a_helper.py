"""Two versions of a helper are in use: one broadcasts before it reduces."""
# ranks: 3
# finding: mismatch operation
# out of line: 2
# cause: call-order | different-collectives

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD


def synchronise(weights, gradient):
    comm.Allreduce(MPI.IN_PLACE, gradient)  # <- here
    comm.Bcast(weights, root=0)


def synchronise_lazily(weights, gradient):
    comm.Bcast(weights, root=0)  # <- here
    comm.Allreduce(MPI.IN_PLACE, gradient)


chosen = synchronise_lazily if comm.rank == 2 else synchronise  # fixed: chosen = synchronise
weights, gradient = np.ones(4), np.ones(4)
for _step in range(5):
    chosen(weights, gradient)
    weights -= 0.1 * gradient
print("rank", comm.rank, "done")
