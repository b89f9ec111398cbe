"""Persistent messages and collectives, started many times."""
# ranks: 3

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
edge, halo, total = np.zeros(4), np.zeros(4), np.zeros(4)
ring = [comm.Recv_init(halo, source=left, tag=1), comm.Send_init(edge, dest=right, tag=1)]
summing, meeting = comm.Allreduce_init(edge, total), comm.Barrier_init()
for step in range(20):
    edge[:] = comm.rank + step
    MPI.Prequest.Startall(ring)
    MPI.Request.Waitall(ring)
    summing.Start()
    summing.Wait()
    meeting.Start()
    while not meeting.Test():
        pass
for request in (*ring, summing, meeting):
    request.Free()
print("rank", comm.rank, halo, total)
