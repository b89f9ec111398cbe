"""Rank 0 posts receives from all others into one buffer."""
# ranks: 3
# warning: buffer-in-use
# warned ranks: 0
# says: still uses

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
if comm.rank == 0:
    part = np.empty(5)
    parts = [part, part]  # fixed: parts = np.empty((2, 5))
    requests = [comm.Irecv(parts[source - 1], source=source) for source in (1, 2)]  # <- here
    MPI.Request.Waitall(requests)
else:
    comm.Send(np.full(5, float(comm.rank)), dest=0)
