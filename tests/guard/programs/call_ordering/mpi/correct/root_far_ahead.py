"""The root has broadcast 30 times before the others have woken up."""
# ranks: 3

import time

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
value = np.zeros(4)
comm.Barrier()
if comm.rank != 0:
    time.sleep(0.8)
for step in range(30):
    if comm.rank == 0:
        value[:] = step
    comm.Bcast(value, root=0)
print("rank", comm.rank, value[0])
