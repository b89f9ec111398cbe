"""A buffered send returns at once, and nobody notices that the message stays in the buffer's receiver."""
# ranks: 2
# warning: message-never-received
# warned ranks: 0

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
MPI.Attach_buffer(bytearray(4096))
if comm.rank == 0:
    comm.Bsend(np.ones(3), dest=1)  # <- here
comm.Barrier()
# fixed: if comm.rank == 1: comm.Recv(np.empty(3), source=0)
MPI.Detach_buffer()
