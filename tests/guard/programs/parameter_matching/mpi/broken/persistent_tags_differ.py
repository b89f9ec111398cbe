"""A halo exchange with persistent requests: one side was made with another tag."""
# ranks: 4
# finding: message tag
# out of line: 0 1 | 0 | 1
# cause: wrong-tag

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
edge, halo = np.full(4, comm.rank, dtype="f8"), np.empty(4)
right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
tag = 5 if comm.rank != 0 else 6  # fixed: tag = 5
sending = comm.Send_init(edge, dest=right, tag=tag)
receiving = comm.Recv_init(halo, source=left, tag=5)  # <- here
for _ in range(3):
    MPI.Prequest.Startall([receiving, sending])
    MPI.Request.Waitall([receiving, sending])  # <- here
print("rank", comm.rank, halo)
