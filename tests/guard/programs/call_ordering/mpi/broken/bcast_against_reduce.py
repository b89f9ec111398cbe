"""The root broadcasts what the others reduce; both libraries end with exit code 0 and wrong numbers."""
# ranks: 3
# finding: mismatch operation
# out of line: 0

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
comm.Barrier()
weights, total = np.full(4, comm.rank, dtype="f8"), np.zeros(4)
if comm.rank == 0:  # fixed: if True:
    comm.Bcast(weights, root=0)  # <- here
else:
    comm.Reduce(weights, total, op=MPI.SUM, root=0)
print("rank", comm.rank, weights, total)
