"""Bsend with an attached buffer, Rsend to a posted receive, and their non-blocking forms."""
# ranks: 2

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
MPI.Attach_buffer(bytearray(1 << 20))
value, rooms = np.full(1000, comm.rank, dtype="f8"), np.zeros((4, 1000))
receives = [comm.Irecv(rooms[tag], source=left, tag=tag) for tag in range(4)]
comm.Barrier()
comm.Bsend(value, dest=right, tag=0)
comm.Rsend(value, dest=right, tag=1)
sends = [comm.Ibsend(value, dest=right, tag=2), comm.Irsend(value, dest=right, tag=3)]
MPI.Request.Waitall(receives + sends)
MPI.Detach_buffer()
print("rank", comm.rank, rooms[:, 0])
