"""The first ranks of both sides receive from each other before they send."""
# ranks: 4
# finding: deadlock
# out of line: 0 2
# cause: receive-receive

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
low = comm.rank < comm.size // 2
half = comm.Split(color=int(low), key=comm.rank)
between = half.Create_intercomm(0, comm, comm.size // 2 if low else 0, tag=3)
mine, theirs = np.full(4, comm.rank), np.zeros(4, dtype=int)
if half.rank == 0 and low:
    between.Recv(theirs, source=0)  # fixed: between.Send(mine, dest=0)  # <- here
    between.Send(mine, dest=0)  # fixed: between.Recv(theirs, source=0)
elif half.rank == 0:
    between.Recv(theirs, source=0)
    between.Send(mine, dest=0)
print("rank", comm.rank, theirs)
