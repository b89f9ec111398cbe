"""A receive that is not needed any more is cancelled."""
# ranks: 2

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
room, status = np.zeros(1), MPI.Status()
request = comm.Irecv(room, source=MPI.ANY_SOURCE, tag=99)
comm.Barrier()
request.Cancel()
request.Wait(status)
print("rank", comm.rank, status.Is_cancelled())
left, right = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
print("rank", comm.rank, comm.sendrecv(comm.rank, dest=right, source=left))
