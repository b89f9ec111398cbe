"""A ring of Sendrecv in which rank 0 listens to the wrong side."""
# ranks: 4
# finding: message source
# out of line: 0 3 | 0

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
if comm.rank == 0:
    left = right  # fixed: pass
edge, halo = np.full(4, comm.rank, dtype="f8"), np.empty(4)
for _ in range(3):
    comm.Sendrecv(edge, dest=right, recvbuf=halo, source=left)  # <- here
print("rank", comm.rank, halo)
