"""A loop sends one buffer step by step and fills it again before the send has completed."""
# ranks: 2
# warning: buffer-in-use
# warned ranks: 0
# says: was written to before the call had completed

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
part = np.zeros(1000)
for step in range(4):
    if comm.rank == 0:
        part[:] = step
        request = comm.Isend(part, dest=1)  # <- here
        # fixed: request.Wait()
        part[:] = -1.0
        request.Wait()
    else:
        comm.Recv(part, source=0)
