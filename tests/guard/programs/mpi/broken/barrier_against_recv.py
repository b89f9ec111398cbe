"""Rank 0 waits for a message, the others for rank 0."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
answer = np.zeros(1)
if comm.rank == 0:
    comm.Recv(answer, source=1)  # <- here
comm.Barrier()
if comm.rank == 1:
    comm.Send(answer, dest=0)
