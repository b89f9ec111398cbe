"""A ring of Sendrecv, Sendrecv_replace and sendrecv, at its edges with PROC_NULL."""
# ranks: 4

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
value, got = np.full(3, comm.rank, dtype="i4"), np.zeros(3, dtype="i4")
for step in range(10):
    comm.Sendrecv(value, dest=right, sendtag=step, recvbuf=got, source=left, recvtag=step)
    comm.Sendrecv_replace(value, dest=left, source=right)
words = comm.sendrecv(f"from {comm.rank}", dest=right, source=left)
above = comm.rank + 1 if comm.rank + 1 < comm.size else MPI.PROC_NULL
below = comm.rank - 1 if comm.rank else MPI.PROC_NULL
line = np.full(3, -1, dtype="i4")
comm.Sendrecv(value, dest=above, recvbuf=line, source=below)
print("rank", comm.rank, value, got, words, line)
