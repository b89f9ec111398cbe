"""Sends that are too large to be buffered, on all ranks at once."""
# ranks: 3
# finding: deadlock
# out of line: 0 1 2
# cause: send-send

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
block, other = np.full(1_000_000, comm.rank, dtype="f8"), np.empty(1_000_000)
comm.Send(block, dest=right)  # <- here  # fixed: request = comm.Isend(block, dest=right)
comm.Recv(other, source=left)  # fixed: comm.Recv(other, source=left); request.Wait()
print("rank", comm.rank, other[0])
