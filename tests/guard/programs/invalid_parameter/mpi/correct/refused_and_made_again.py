"""mpi4py refuses a call on one rank, or on all at different moments; each time the ranks agree on what comes next."""
# ranks: 3

import time

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank = comm.Get_rank()
total = np.zeros(4)
grid = np.ones((4, 4))

# one rank brings a column, which is not contiguous, and then a copy of it
for _ in range(3):
    try:
        comm.Allreduce(grid[:, 0] if rank == 1 else np.ones(4), total)
    except (TypeError, ValueError, BufferError):
        comm.Allreduce(np.ascontiguousarray(grid[:, 0]), total)
print(rank, total.tolist())

# all are refused, the last one late, and fall back to another call
time.sleep(0.5 * (rank == 2))
try:
    comm.Bcast(grid[:, 0], root=0)
except (TypeError, ValueError, BufferError):
    column = comm.bcast(grid[:, 0].tolist() if rank == 0 else None, root=0)
    print(rank, column)
comm.Barrier()
