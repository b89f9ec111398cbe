"""Rank 1 writes and syncs a file many times; the others wait for its message and for it."""
# ranks: 4

import os
import time

from mpi4py import MPI

comm = MPI.COMM_WORLD
if comm.rank == 1:
    end = time.monotonic() + 0.7
    with open("checkpoint", "wb") as file:
        while time.monotonic() < end:
            file.write(bytes(4096))
            os.fsync(file.fileno())
    comm.send("written", dest=0)
if comm.rank == 0:
    print(comm.recv(source=1))
comm.Barrier()
