"""A chain of blocks sends to the right; the last but one believes that it is the last."""
# ranks: 4
# finding: deadlock | peer-gone
# out of line: 2
# cause: receive-without-send | early-exit | rank-conditional-call | different-collectives

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
last = comm.size - 2 if comm.rank == 2 else comm.size - 1  # fixed: last = comm.size - 1
edge = np.empty(3)
for step in range(4):
    if comm.rank > 0:
        comm.Recv(edge, source=comm.rank - 1, tag=step)  # <- here
    else:
        edge[:] = step
    if comm.rank < last:
        comm.Send(edge + 1, dest=comm.rank + 1, tag=step)
comm.Barrier()
print("rank", comm.rank, edge[0])
