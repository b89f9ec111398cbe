"""Hands a token along the ranks, from the first to the last."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
token = np.zeros(1)
if comm.rank > 0:
    comm.Recv(token, source=comm.rank - 1)
token += 1
if comm.rank + 1 < comm.size:  # the last rank has nobody to its right
    comm.Send(token, dest=comm.rank + 1)
comm.Barrier()
print(f"rank {comm.rank}: token {token[0]:.0f}")
