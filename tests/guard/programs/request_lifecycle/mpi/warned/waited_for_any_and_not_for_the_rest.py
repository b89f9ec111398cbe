"""A rank waits for any of its receives, takes the first, and leaves the others under way."""
# ranks: 3
# warning: request-never-completed
# warned ranks: 0

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rows = np.zeros((3, 2))
if comm.rank == 0:
    requests = [comm.Irecv(rows[source], source=source) for source in (1, 2)]  # <- here
    MPI.Request.Waitany(requests)
    # fixed: MPI.Request.Waitall(requests)
else:
    comm.Send(np.ones(2), dest=0)
comm.Barrier()
