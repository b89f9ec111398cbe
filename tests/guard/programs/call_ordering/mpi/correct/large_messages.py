"""Large sends that wait for their receives, which come later but come."""
# ranks: 3

import time

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
block = np.full(500_000, comm.rank, dtype="f8")
if comm.rank:
    comm.Send(block, dest=0, tag=comm.rank)
    comm.Ssend(np.ones(1), dest=0)
else:
    time.sleep(0.8)
    for source in range(1, comm.size):
        comm.Recv(block, source=source, tag=source)
        comm.Recv(np.empty(1), source=source)
        print("from", source, block.sum())
