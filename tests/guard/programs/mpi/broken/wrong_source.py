"""Rank 0 waits for the last rank, but it is rank 1 that sends."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
value = np.full(2, comm.rank, dtype="i4")
if comm.rank == 1:
    comm.Send(value, dest=0, tag=4)
elif comm.rank == 0:
    comm.Recv(value, source=comm.size - 1, tag=4)  # <- here
comm.Barrier()
print("rank", comm.rank, value)
