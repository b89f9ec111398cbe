"""A halo exchange with persistent requests: one side was made with another tag."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
edge, halo = np.full(4, comm.rank, dtype="f8"), np.empty(4)
right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
sending = comm.Send_init(edge, dest=right, tag=5 if comm.rank != 0 else 6)
receiving = comm.Recv_init(halo, source=left, tag=5)  # <- here
for _ in range(3):
    MPI.Prequest.Startall([receiving, sending])
    MPI.Request.Waitall([receiving, sending])  # <- here
print("rank", comm.rank, halo)
