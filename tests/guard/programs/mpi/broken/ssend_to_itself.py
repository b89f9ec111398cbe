"""Every rank sends to all ranks, itself among them, before anybody receives."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
value, room = np.ones(2), np.empty(2)
comm.Ssend(value, dest=comm.rank)  # <- here
comm.Recv(room, source=comm.rank)
print("rank", comm.rank, room)
