"""All ranks poll their requests: Test, Testany, Testall, Testsome."""
# ranks: 3

import time

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
peers = [rank for rank in range(comm.size) if rank != comm.rank]
for round_number, how in enumerate(("Test", "Testany", "Testsome", "Testall")):
    rooms = np.zeros((len(peers), 2))
    requests = [comm.Irecv(rooms[at], source=peer, tag=round_number) for at, peer in enumerate(peers)]
    if comm.rank == 0:
        time.sleep(0.15)
    sends = [comm.Isend(np.full(2, comm.rank, dtype="f8"), dest=peer, tag=round_number) for peer in peers]
    left = len(requests)
    while left:
        if how == "Test":
            left = sum(not request.Test() for request in requests)
        elif how == "Testany":
            at, done = MPI.Request.Testany(requests)
            left -= bool(done and at != MPI.UNDEFINED)
        elif how == "Testsome":
            left -= len(MPI.Request.Testsome(requests) or [])
        elif MPI.Request.Testall(requests):
            left = 0
    MPI.Request.Waitall(sends)
    print("rank", comm.rank, how, rooms.sum())
