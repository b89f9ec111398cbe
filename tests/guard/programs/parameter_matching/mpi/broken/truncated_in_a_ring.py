"""Ranks pass blocks around a ring, with whatever tag; one has more rows than the others have room for."""
# ranks: 4
# finding: message count
# out of line: 0 3
# cause: truncated

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
num_rows = 25 + (2 if comm.rank == 3 else 0)
block, room = np.zeros(num_rows), np.zeros(26)  # fixed: block, room = np.zeros(num_rows), np.zeros(27)
right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
for _ in range(comm.size):
    comm.Sendrecv(block, dest=right, recvbuf=room, source=left)  # <- here
comm.Barrier()
