"""A ring of five: rank 2 skips the exchange of one step, and its neighbours wait for it."""
# ranks: 5
# finding: deadlock
# out of line: 2
# cause: skipped-call

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
ring = comm.Create_cart([comm.size], periods=[True])
halo, total = np.zeros(2), np.zeros(1)
for step in range(4):
    if comm.rank != 2 or step != 1:  # fixed: if True:
        ring.Neighbor_alltoall(np.full(2, comm.rank, dtype="f8"), halo)  # <- here
    comm.Allreduce(np.ones(1), total)
