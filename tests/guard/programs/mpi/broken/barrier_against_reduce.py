"""Rank 1 sums while the others meet."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
part, total = np.ones(4), np.zeros(4)
comm.Barrier()
if comm.rank == 1:
    comm.Reduce(part, total, op=MPI.SUM, root=0)  # <- here
else:
    comm.Barrier()
print("rank", comm.rank, "done")
