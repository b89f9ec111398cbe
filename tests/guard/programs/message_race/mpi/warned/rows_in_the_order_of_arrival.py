"""Rows are put into a matrix in the order in which they come, and not by their senders."""
# ranks: 4
# options: --strict=message-race
# warning: message-race
# warned ranks: 0
# says: Recv from any rank

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
if comm.rank:
    comm.Send(np.full(2, comm.rank, dtype="f8"), dest=0)
comm.Barrier()
if comm.rank == 0:
    rows = np.zeros((comm.size, 2))
    for number in range(1, comm.size):
        comm.Recv(rows[number])  # <- here  # fixed: comm.Recv(rows[number], source=number)
    print(rows)
