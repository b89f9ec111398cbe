"""Rank 1 sums while the others meet."""
# ranks: 2
# finding: mismatch operation
# out of line: 0 1 | 0 | 1
# cause: rank-conditional-call
# ranks: 4
# out of line: 1

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
part, total = np.ones(4), np.zeros(4)
comm.Barrier()
if comm.rank == 1:  # fixed: if False:
    comm.Reduce(part, total, op=MPI.SUM, root=0)  # <- here
else:
    comm.Barrier()
print("rank", comm.rank, "done")
