"""A loop keeps only its last request."""
# ranks: 2
# warning: request-never-completed
# warned ranks: 0

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
parts = [np.full(2, float(n)) for n in range(5)]
if comm.rank == 0:
    for n, part in enumerate(parts):
        request = comm.Isend(part, dest=1, tag=n)  # <- here
        # fixed: request.Wait()
    request.Wait()
else:
    for n, part in enumerate(parts):
        comm.Recv(part, source=0, tag=n)
