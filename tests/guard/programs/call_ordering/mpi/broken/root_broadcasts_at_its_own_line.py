"""The root broadcasts at a line of its own, which is right; in the second epoch rank 1 skips a reduction."""
# ranks: 3
# finding: mismatch operation | mismatch
# out of line: 1
# cause: skipped-call
# says: rank 1 left out the Allreduce

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
weights = np.zeros(8)


def share_weights():
    if comm.rank == 0:
        return comm.bcast(weights, root=0)
    return comm.bcast(None, root=0)


def train_epoch(epoch):
    for batch in range(3):
        gradient = np.full(8, float(batch))
        if comm.rank == 1 and epoch == 1 and batch == 2:  # fixed: if False:
            continue
        comm.Allreduce(MPI.IN_PLACE, gradient)  # <- here
    return gradient


for epoch in range(3):
    weights = share_weights()
    weights += train_epoch(epoch)
print("rank", comm.rank, weights[0])
