"""Requests use parts of one array that touch and do not overlap, and reads share what nobody writes."""
# ranks: 3

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
left, right = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
line = np.arange(12.0) + 100 * comm.rank
for _ in range(3):
    requests = [comm.Irecv(line[:1], source=left, tag=1), comm.Irecv(line[-1:], source=right, tag=2)]
    requests += [comm.Isend(line[1:2], dest=left, tag=2), comm.Isend(line[-2:-1], dest=right, tag=1)]
    requests += [comm.Isend(line[1:6], dest=right, tag=3), comm.Irecv(np.empty(5), source=left, tag=3)]
    middle = line[2:-2].sum()
    MPI.Request.Waitall(requests)
    line[1:-1] += middle
print("rank", comm.rank, line.sum())
