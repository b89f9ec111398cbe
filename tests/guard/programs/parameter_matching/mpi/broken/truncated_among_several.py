"""The first rank waits for one message of every rank, from whoever comes, and one is larger than the rest."""
# ranks: 4
# finding: message count
# out of line: 0 2
# cause: truncated

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
if comm.rank == 0:
    rooms = [np.zeros(4) for _ in range(comm.size - 1)]  # fixed: rooms = [np.zeros(6) for _ in range(comm.size - 1)]
    requests = [comm.Irecv(room, source=MPI.ANY_SOURCE, tag=7) for room in rooms]  # <- here
    MPI.Request.Waitall(requests)
else:
    comm.Send(np.ones(6 if comm.rank == 2 else 4), dest=0, tag=7)  # <- here
comm.Barrier()
