"""A grid of 2 x 2: two of the ranks reduce along columns first, and all four wait in a circle."""
# ranks: 4
# finding: deadlock communicator | deadlock
# out of line: 0 1 2 3
# cause: call-order

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
row, column = divmod(comm.rank, 2)
rows = comm.Split(row, column)
columns = comm.Split(column, row)
block = np.full(6, float(comm.rank))


def normalise(block):
    total = np.empty_like(block)
    if (row + column) % 2 == 0:  # fixed: if True:
        rows.Allreduce(block, total)  # <- here
        columns.Allreduce(total, block)  # <- here
    else:
        columns.Allreduce(block, total)  # <- here
        rows.Allreduce(total, block)  # <- here


for _ in range(3):
    normalise(block)
print("rank", comm.rank, np.isfinite(block).all())
