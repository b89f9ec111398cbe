"""The root of a non-blocking broadcast goes on without a wait: it has the value already."""
# ranks: 3
# warning: request-never-completed
# warned ranks: 0
# says: Ibcast

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
weights = np.full(4, 7.0 if comm.rank == 0 else 0.0)
request = comm.Ibcast(weights, root=0)  # <- here
# fixed: if comm.rank == 0: request.Wait()
if comm.rank != 0:
    request.Wait()
comm.Barrier()
