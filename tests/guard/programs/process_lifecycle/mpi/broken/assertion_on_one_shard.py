"""A check of the data fails on one rank, in the middle of training."""
# ranks: 3
# finding: peer-gone
# out of line: 2
# cause: exception
# says: AssertionError

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD


def check(batch):
    assert np.isfinite(batch).all(), "batch has a hole"  # <- here
    return batch


def batches():
    for step in range(8):
        batch = np.ones(6)
        if comm.rank == 2 and step == 5:
            batch[2] = np.nan  # fixed: batch[2] = 0
        yield batch


for batch in batches():
    gradient = check(batch) * 2
    comm.Allreduce(MPI.IN_PLACE, gradient)
print("rank", comm.rank, "done")
