"""Rank 1 makes the communicator of a library before its own, the others after it: each is taken for the other."""
# ranks: 3
# finding: deadlock communicator
# out of line: 1
# cause: call-order
# says: rank 1 makes `control`
# says: `data`

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
if world.rank == 1:  # fixed: if world.rank < 0:
    control = world.Dup()  # <- here
    data = world.Dup()  # <- here
else:
    data = world.Dup()
    control = world.Dup()
total, count = np.zeros(8), np.zeros(1)
for _step in range(3):
    data.Allreduce(np.ones(8), total)
    control.Allreduce(np.ones(1), count)
print("rank", world.rank, total[0], count[0])
