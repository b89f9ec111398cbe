"""Persistent requests are prepared in every step, as if they were plain ones."""
# ranks: 2
# warning: handle-leak
# warned ranks: 0 1
# says: requests

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
mine, theirs = np.ones(1), np.zeros(1)
for _ in range(1200):
    request = comm.Send_init(mine, dest=1 - comm.rank)  # <- here
    request.Start()
    comm.Recv(theirs, source=1 - comm.rank)
    request.Wait()
    # fixed: request.Free()
