"""Rank 0 has room for the blocks of all, and receives once."""
# ranks: 4
# finding: deadlock
# out of line: 0
# cause: send-without-receive

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
if comm.rank == 0:
    blocks = np.zeros((comm.size - 1, 100_000))
    comm.Recv(blocks, source=MPI.ANY_SOURCE)  # fixed: [comm.Recv(block, source=MPI.ANY_SOURCE) for block in blocks]
else:
    comm.Send(np.full(100_000, float(comm.rank)), dest=0)  # <- here
comm.Barrier()  # <- here
