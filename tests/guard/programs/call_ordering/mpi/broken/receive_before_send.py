"""Neighbours in a ring that all receive first."""
# ranks: 2
# finding: deadlock
# out of line: 0 1
# cause: receive-receive

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
edge, halo = np.full(3, comm.rank, dtype="f8"), np.empty(3)
comm.Recv(halo, source=left, tag=1)  # <- here  # fixed: comm.Sendrecv(edge, right, 1, halo, left, 1)
comm.Send(edge, dest=right, tag=1)  # fixed: pass
print("rank", comm.rank, halo)
