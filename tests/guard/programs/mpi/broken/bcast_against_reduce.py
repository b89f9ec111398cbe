"""The root broadcasts what the others reduce; both libraries end with exit code 0 and wrong numbers."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
comm.Barrier()
weights, total = np.full(4, comm.rank, dtype="f8"), np.zeros(4)
if comm.rank == 0:
    comm.Bcast(weights, root=0)  # <- here
else:
    comm.Reduce(weights, total, op=MPI.SUM, root=0)
print("rank", comm.rank, weights, total)
