"""Rank 0 waits for a message, the others for rank 0."""
# ranks: 3
# finding: deadlock
# out of line: 0
# cause: receive-without-send

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
answer = np.zeros(1)
if comm.rank == 0:
    comm.Recv(answer, source=1)  # <- here  # fixed: pass
comm.Barrier()
if comm.rank == 1:
    comm.Send(answer, dest=0)  # fixed: comm.Send(answer, dest=0)
# fixed: if comm.rank == 0: comm.Recv(answer, source=1)
