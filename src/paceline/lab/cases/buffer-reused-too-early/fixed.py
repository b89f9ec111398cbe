"""Rank 0 makes a block of samples for every other rank, and sends each while it makes the next one."""

import numpy as np
from mpi4py import MPI

NUM_ROWS = 200_000

comm = MPI.COMM_WORLD
block = np.empty(NUM_ROWS)
if comm.rank == 0:
    sends = []
    for worker in range(1, comm.size):
        block = np.full(NUM_ROWS, worker, dtype="f8")  # memory of its own for each message
        sends.append(comm.Isend(block, dest=worker))
    comm.bcast("begin", root=0)
    MPI.Request.Waitall(sends)
    print(f"rank 0: {len(sends)} blocks sent")
else:
    comm.bcast(None, root=0)
    comm.Recv(block, source=0)
    print(f"rank {comm.rank}: mean {block.mean():.2f}")
