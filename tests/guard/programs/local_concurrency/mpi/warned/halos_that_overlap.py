"""The cells that are sent and those that are received share one cell."""
# ranks: 2
# warning: buffer-in-use
# warned ranks: 0 1
# says: one of them writes to it

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
field = np.full(10, float(comm.rank))
other = 1 - comm.rank
sending = comm.Isend(field[2:4], dest=other)
receiving = comm.Irecv(field[0:3], source=other)  # <- here # fixed: receiving = comm.Irecv(field[0:2], source=other)
MPI.Request.Waitall([sending, receiving])
