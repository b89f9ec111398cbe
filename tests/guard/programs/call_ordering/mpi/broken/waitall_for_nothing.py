"""Rank 0 waits for a second message from everyone; only one each was sent."""
# ranks: 3
# says: rank 0 waits for its 2nd Irecv
# finding: deadlock
# out of line: 0
# cause: receive-without-send

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
if comm.rank == 0:
    rooms = np.empty((2 * comm.size, 4))
    requests = [
        comm.Irecv(rooms[2 * rank + part], source=rank, tag=part)  # <- here
        for rank in range(1, comm.size)
        for part in (0, 1)
    ]
    MPI.Request.Waitall(requests)  # <- here
else:
    comm.Send(np.ones(4), dest=0, tag=0)  # fixed: [comm.Send(np.ones(4), dest=0, tag=part) for part in (0, 1)]
comm.Barrier()
