"""Rank 1 leaves out a step, and much later rank 2 brings another size: the first one shows first."""
# ranks: 4
# finding: mismatch operation
# out of line: 1
# cause: skipped-call
# says: rank 1 left out

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD


def batch_of(step):
    size = 5 if (comm.rank, step) == (2, 30) else 8  # fixed: size = 8
    return np.ones(size)


def is_bad(step):
    return (comm.rank, step) == (1, 13)  # fixed: return False


for step in range(40):
    if is_bad(step):
        continue
    gradient = batch_of(step)
    comm.Allreduce(MPI.IN_PLACE, gradient)  # <- here
    if step % 10 == 9:
        losses = comm.gather(float(gradient.sum()), root=0)
print("rank", comm.rank, "done")
