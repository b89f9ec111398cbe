"""Sends that are too large to be buffered, on all ranks at once."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
block, other = np.full(1_000_000, comm.rank, dtype="f8"), np.empty(1_000_000)
comm.Send(block, dest=right)  # <- here
comm.Recv(other, source=left)
print("rank", comm.rank, other[0])
