"""The rank with the best loss collects the scores of all ranks and writes them down."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
my_loss = [0.30, 0.10, 0.20][comm.rank]
best_before = {0: 0.25, 1: 0.25, 2: 0.05}[comm.rank]  # rank 2 read another checkpoint

losses = np.array(comm.allgather(my_loss))
is_better = losses.min() < best_before
writer = int(losses.argmin()) if is_better else comm.rank  # nothing better: write alone
scores = comm.gather(100 * my_loss, root=writer)
comm.Barrier()
print(f"rank {comm.rank}: {'handed in' if scores is None else f'writes {sum(scores):.0f}'}")
