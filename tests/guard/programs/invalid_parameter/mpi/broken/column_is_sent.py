"""A column of a matrix is not contiguous, so mpi4py refuses to send it, and the other rank waits for it."""
# ranks: 2
# finding: peer-gone
# out of line: 0
# cause: exception
# says: BufferError

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
matrix = np.arange(6.0).reshape(3, 2)
column = np.zeros(3)
if comm.rank == 0:
    comm.Send(matrix[:, 1], dest=1)  # <- here  # fixed: comm.Send(matrix[:, 1].copy(), dest=1)
else:
    comm.Recv(column, source=0)
print("rank", comm.rank, column.sum())
