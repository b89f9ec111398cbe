"""Ranks pass values around a ring by persistent requests; one comes late to its last step, and the others wait."""
# ranks: 4

import time

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
value, room = np.full(4, float(comm.rank)), np.zeros(4)
requests = [comm.Send_init(value, dest=right, tag=3), comm.Recv_init(room, source=left, tag=3)]
for step in range(4):
    if comm.rank == 2 and step == 3:
        time.sleep(3)
    MPI.Prequest.Startall(requests)
    MPI.Request.Waitall(requests)
    assert room[0] == left
comm.Barrier()
for request in requests:
    request.Free()
