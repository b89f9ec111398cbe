"""A received value is used in a computation one line before the wait."""
# ranks: 2
# not found: what Python code reads from an array is not seen, only what calls use

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
mine, theirs = np.full(4, 3.0), np.zeros(4)
requests = [comm.Irecv(theirs, source=1 - comm.rank), comm.Isend(mine, dest=1 - comm.rank)]
# fixed: MPI.Request.Waitall(requests)
mean = theirs.mean()  # <- here
MPI.Request.Waitall(requests)
