"""The buffer has room for 4 values, 6 are sent."""
# ranks: 2
# finding: message count
# out of line: 0 1
# cause: truncated

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
if comm.rank == 0:
    comm.Send(np.ones(6), dest=1)
elif comm.rank == 1:
    room = np.empty(4)  # fixed: room = np.empty(6)
    comm.Recv(room, source=0)  # <- here
comm.Barrier()
