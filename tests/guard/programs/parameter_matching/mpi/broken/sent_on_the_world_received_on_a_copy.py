"""The message goes over the world, the receive listens on a duplicate of it."""
# ranks: 3
# finding: message communicator
# out of line: 0 1 | 1

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
copy = comm.Dup()
room = np.empty(2)
if comm.rank == 0:
    comm.Send(np.ones(2), dest=1, tag=3)
elif comm.rank == 1:
    copy.Recv(room, source=0, tag=3)  # <- here  # fixed: comm.Recv(room, source=0, tag=3)
comm.Barrier()
