"""The last rank posts a barrier where the others post a sum."""
# ranks: 2
# finding: mismatch operation
# out of line: 0 1 | 0 | 1

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
comm.Barrier()
mine, total = np.ones(2), np.zeros(2)
requests = []
if comm.rank == comm.size - 1:  # fixed: if False:
    requests.append(comm.Ibarrier())  # <- here
else:
    requests.append(comm.Iallreduce(mine, total, op=MPI.SUM))
mine2 = mine * 2  # work while the request is under way
MPI.Request.Waitall(requests)
print("rank", comm.rank, total, mine2)
