"""Ranks 0 and 2 wait for each other before rank 1 has sent the message that tells why."""
# ranks: 3
# finding: message source
# out of line: 1 2 | 2
# cause: wrong-source

import time

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
value = np.full(2, comm.rank, dtype="i4")
if comm.rank == 1:
    time.sleep(0.2)
    comm.Send(value, dest=2)
elif comm.rank == 2:
    comm.Recv(value, source=0)  # <- here  # fixed: comm.Recv(value, source=1)
comm.Barrier()
print("rank", comm.rank, value)
