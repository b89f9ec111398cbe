"""Rank 0 asks again and again whether a message has come, and does other things in between."""
# ranks: 3

import time

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
if comm.rank == 0:
    room, open_ranks = np.empty(2), set(range(1, comm.size))
    status = MPI.Status()
    while open_ranks:
        if comm.Iprobe(source=MPI.ANY_SOURCE, tag=9, status=status):
            comm.Recv(room, source=status.Get_source(), tag=9)
            open_ranks.discard(int(room[0]))
        time.sleep(0.01)
    print("all have reported")
else:
    time.sleep(0.2 * comm.rank)
    comm.Send(np.full(2, comm.rank, dtype="f8"), dest=0, tag=9)
comm.Barrier()
