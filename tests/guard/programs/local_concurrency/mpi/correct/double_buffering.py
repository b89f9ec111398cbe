"""Two buffers take turns: one is filled while the other is under way."""
# ranks: 2

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
buffers, requests = [np.zeros(1000), np.zeros(1000)], [MPI.REQUEST_NULL, MPI.REQUEST_NULL]
rooms = [np.zeros(1000), np.zeros(1000)]
total = 0.0
for step in range(10):
    turn = step % 2
    if comm.rank == 0:
        requests[turn].Wait()
        buffers[turn][:] = step
        requests[turn] = comm.Isend(buffers[turn], dest=1)
    else:
        requests[turn].Wait()
        total += rooms[turn].sum()
        requests[turn] = comm.Irecv(rooms[turn], source=0)
MPI.Request.Waitall(requests)
print("rank", comm.rank, total + sum(room.sum() for room in rooms))
