"""Rank 0 waits for the last rank, but it is rank 1 that sends."""
# ranks: 3
# finding: message source
# out of line: 0 1 | 0
# cause: wrong-source

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
value = np.full(2, comm.rank, dtype="i4")
if comm.rank == 1:
    comm.Send(value, dest=0, tag=4)
elif comm.rank == 0:
    comm.Recv(value, source=comm.size - 1, tag=4)  # <- here  # fixed: comm.Recv(value, source=1, tag=4)
comm.Barrier()
print("rank", comm.rank, value)
