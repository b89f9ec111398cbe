"""Ranks 0 and 2 wait for each other before rank 1 has sent the message that tells why."""

import time

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
value = np.full(2, comm.rank, dtype="i4")
if comm.rank == 1:
    time.sleep(0.2)
    comm.Send(value, dest=2)
elif comm.rank == 2:
    comm.Recv(value, source=0)  # <- here
comm.Barrier()
print("rank", comm.rank, value)
