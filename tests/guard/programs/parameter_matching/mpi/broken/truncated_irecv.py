"""A posted receive has room for 4 values, 6 are sent later."""
# ranks: 3
# finding: message count
# out of line: 0 1
# cause: truncated

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
room = np.empty(4)  # fixed: room = np.empty(6)
request = comm.Irecv(room, source=0, tag=8) if comm.rank == 1 else MPI.REQUEST_NULL  # <- here
comm.Barrier()
if comm.rank == 0:
    comm.Send(np.ones(6), dest=1, tag=8)  # <- here
request.Wait()
comm.Barrier()
