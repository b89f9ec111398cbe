"""A message is left on a communicator that both ranks free; the job goes on for a while."""
# ranks: 2
# warning: message-never-received
# warned ranks: 0
# says: Dup

import time

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD.Dup()
if comm.rank == 0:
    comm.Send(np.ones(2), dest=1)  # <- here
# fixed: if comm.rank == 1: comm.Recv(np.empty(2), source=0)
comm.Barrier()
comm.Free()
time.sleep(1.5)
MPI.COMM_WORLD.Barrier()
