"""Every rank sends to all ranks, itself among them, before anybody receives."""
# ranks: 2
# says: wait for themselves
# finding: deadlock
# out of line: 0 1
# cause: send-send

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
value, room = np.ones(2), np.empty(2)
comm.Ssend(value, dest=comm.rank)  # <- here  # fixed: comm.Sendrecv(value, comm.rank, 0, room, comm.rank, 0)
comm.Recv(room, source=comm.rank)  # fixed: pass
print("rank", comm.rank, room)
