"""A helper starts a send and drops the request."""
# ranks: 2
# warning: request-never-completed
# warned ranks: 0 1
# says: Isend

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
mine, theirs = np.ones(4), np.empty(4)


def offer(data):
    comm.Isend(data, dest=1 - comm.rank)  # <- here # fixed: return comm.Isend(data, dest=1 - comm.rank)


request = offer(mine)
comm.Recv(theirs, source=1 - comm.rank)
comm.Barrier()
if request is not None:
    request.Wait()
