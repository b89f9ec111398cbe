"""Halos by requests that are waited for in any order, with a barrier and a reduction under way meanwhile."""
# ranks: 3

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
total = np.zeros(2)
for step in range(5):
    halos = [np.empty(2), np.empty(2)]
    receives = [comm.Irecv(halos[0], source=left, tag=1), comm.Irecv(halos[1], source=right, tag=2)]
    mine = np.full(2, float(step))  # mpi4py does not keep what a collective sends: it must have a name until the wait
    reduction = comm.Iallreduce(mine, total)
    barrier = comm.Ibarrier()
    sends = [comm.Isend(np.full(2, 1.0), dest=left, tag=2), comm.Isend(np.full(2, 2.0), dest=right, tag=1)]
    if comm.rank == 1:
        barrier.Wait()
    for request in reversed(receives) if comm.rank % 2 else receives:
        request.Wait()
    MPI.Request.Waitall(sends)
    reduction.Wait()
    if comm.rank != 1:
        barrier.Wait()
print("rank", comm.rank, total[0], halos[0][0], halos[1][0])
