"""Requests are completed one by one, all at once, some at a time, through copies, from other collections, by tests."""
# ranks: 2

from collections import deque

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
other = 1 - comm.rank


def post(count, tag):
    rooms = np.zeros((count, 2))
    received = [comm.Irecv(room, source=other, tag=tag) for room in rooms]
    return received + [comm.Isend(np.ones(2), dest=other, tag=tag) for _ in range(count)]


MPI.Request.Waitall(deque(post(3, 1)))
MPI.Request.Waitall(np.array(post(2, 2), dtype=object))
pending = post(3, 3)
while (index := MPI.Request.Waitany(pending)) != MPI.UNDEFINED:
    pass
pending = post(3, 4)
while any(pending):
    MPI.Request.Waitsome(pending)
pending = post(2, 5)
while not MPI.Request.Testall(pending):
    pass
pending = post(2, 6)
while any(pending):
    MPI.Request.Testsome(pending)
    MPI.Request.Testany(pending)
for request in post(2, 7):
    while not request.Test():
        pass


def hide(requests):
    return [MPI.Request(request) for request in requests]


for request in hide(post(2, 8)):
    request.Wait()
for request in post(1, 9):
    MPI.Request.fromhandle(request.handle).Wait()
pending = post(1, 10)
while not all(request.Get_status() for request in pending):
    pass
MPI.Request.Waitall(pending)
sent = comm.isend([1, 2], dest=other, tag=11)
print("rank", comm.rank, comm.irecv(source=other, tag=11).wait())
MPI.Request.waitall([sent, MPI.REQUEST_NULL])
