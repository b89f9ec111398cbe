"""Rank 0 collects a block of every other rank, adds them up, and tells all."""

import numpy as np
from mpi4py import MPI

NUM_ROWS = 50_000

comm = MPI.COMM_WORLD
block = np.full(NUM_ROWS, comm.rank, dtype="f8")
total = None
if comm.rank == 0:
    blocks = np.zeros((comm.size - 1, NUM_ROWS))
    comm.Recv(blocks, source=MPI.ANY_SOURCE)  # room for the blocks of all
    total = blocks.sum()
else:
    comm.Send(block, dest=0)
total = comm.bcast(total, root=0)
comm.Barrier()
print(f"rank {comm.rank}: total {total:.0f}")
