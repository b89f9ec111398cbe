"""In a ring one rank sends twice to its neighbour, in an exchange and before it."""
# ranks: 3
# warning: message-never-received
# warned ranks: 0

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
mine, theirs = np.full(2, float(comm.rank)), np.empty(2)
if comm.rank == 0:
    comm.Send(mine, dest=right)  # fixed: pass
comm.Sendrecv(mine, dest=right, recvbuf=theirs, source=left)  # <- here
