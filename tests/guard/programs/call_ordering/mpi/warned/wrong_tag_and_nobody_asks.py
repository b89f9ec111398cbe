"""Every rank posts its result under a tag that rank 0 never asks for."""
# ranks: 3
# warning: message-never-received
# warned ranks: 1 2
# says: tag 12

import numpy as np
from mpi4py import MPI

RESULT, STATUS = 11, 12
comm = MPI.COMM_WORLD
if comm.rank:
    comm.Send(np.ones(4), dest=0, tag=RESULT)
    request = comm.Isend(np.zeros(1), dest=0, tag=STATUS)  # <- here
    request.Wait()
else:
    for source in range(1, comm.size):
        comm.Recv(np.empty(4), source=source, tag=RESULT)
        # fixed: comm.Recv(np.empty(1), source=source, tag=STATUS)
