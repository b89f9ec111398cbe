"""The script waits for a message with a limit of its own, and goes on without it."""
# ranks: 2

import time

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
room = np.zeros(1)
if comm.rank == 0:
    request = comm.Irecv(room, source=1, tag=1)
    end = time.monotonic() + 0.6
    while not request.Test() and time.monotonic() < end:
        time.sleep(0.01)
    print("rank 0 goes on without it")
    request.Cancel()
    request.Wait()
comm.Barrier()
