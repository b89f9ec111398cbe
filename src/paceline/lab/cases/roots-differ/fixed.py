"""The rank with the best loss hands its weights to all."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
my_loss = [0.30, 0.10, 0.20][comm.rank]
best_before = {0: 0.25, 1: 0.25, 2: 0.05}[comm.rank]  # rank 2 read another checkpoint
losses = np.array(comm.allgather(my_loss))
best_before = comm.bcast(best_before, root=0)  # one word for all
root = int(losses.argmin()) if losses.min() < best_before else 0
weights = np.full(4, comm.rank, dtype="f8")
comm.Bcast(weights, root=root)
print(f"rank {comm.rank}: weights of rank {weights[0]:.0f}")
