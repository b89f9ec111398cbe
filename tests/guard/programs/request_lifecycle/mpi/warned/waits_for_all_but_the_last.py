"""Waitall gets a list that lacks one request."""
# ranks: 3
# warning: request-never-completed
# warned ranks: 0

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
if comm.rank == 0:
    rooms = np.zeros((2, 3))
    requests = [comm.Irecv(rooms[n], source=n + 1) for n in range(2)]  # <- here
    MPI.Request.Waitall(requests[:-1])  # fixed: MPI.Request.Waitall(requests)
else:
    comm.Send(np.ones(3), dest=0)
comm.Barrier()
