"""Rank 1 receives into an array that may not be written to."""
# ranks: 2
# finding: peer-gone
# out of line: 1
# cause: exception

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
weights = np.zeros(4)
if comm.rank == 1:
    weights.flags.writeable = False  # fixed: weights[:] = -1
comm.Bcast(weights, root=0)  # <- here
comm.Barrier()
