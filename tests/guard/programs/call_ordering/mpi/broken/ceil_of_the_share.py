"""The classic: 100 samples, batches of 3, ceil(N/W) samples per rank, so the last of 7 ranks has a step less."""
# ranks: 7
# finding: mismatch operation
# out of line: 6
# cause: uneven-steps

import math

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
num_samples, batch_size = 100, 3
share = math.ceil(num_samples / comm.size)  # fixed: share = num_samples // comm.size
mine = range(comm.rank * share, min(num_samples, (comm.rank + 1) * share))
loss, total = np.zeros(1), np.zeros(1)
for _epoch in range(2):
    for start in range(0, len(mine), batch_size):
        loss += sum(mine[start : start + batch_size])
        comm.Barrier()  # <- here
    comm.Barrier()  # the epoch is over
comm.Reduce(loss, total, root=0)
if comm.rank == 0:
    print("loss", total)
