"""Hands a token along the ranks, from the first to the last; each adds what it has counted."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
counted = 10 * (comm.rank + 1)
left, right = comm.rank - 1, comm.rank + 1

token = np.zeros(1)
if comm.rank > 0:
    comm.Recv(token, source=left)
token += counted
comm.Send(token, dest=right)
comm.Barrier()
print(f"rank {comm.rank}: token {token[0]:.0f}")
