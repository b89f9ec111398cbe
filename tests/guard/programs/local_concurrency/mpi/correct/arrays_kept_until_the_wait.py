"""Reductions of arrays that live long enough: by a name, in a list, as a part of another array, or as a result."""
# ranks: 2

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
grid, totals, kept, result = np.ones((4, 4)), np.zeros((4, 4)), [], np.zeros(4)
for row in range(4):
    kept.append(np.full(4, float(row)))
    requests = [
        comm.Iallreduce(grid[row], totals[row]),  # parts of arrays that have a name
        comm.Ireduce(kept[-1], result if comm.rank == 0 else None),
        comm.Iallreduce(MPI.IN_PLACE, grid[row - 1].reshape(2, 2).reshape(4)),
    ]
    for request in requests:
        request.Wait()
comm.Isend(np.ones(3), dest=1 - comm.rank).Free()  # this mpi4py keeps
comm.Recv(np.zeros(3), source=1 - comm.rank)
print("rank", comm.rank, totals.size)
