"""A persistent receive is freed before it has completed."""
# ranks: 2
# warning: request-never-completed
# warned ranks: 1
# says: freed before

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
room = np.zeros(2)
if comm.rank == 1:
    request = comm.Recv_init(room, source=0)  # <- here
    request.Start()
    # fixed: request.Wait()
    request.Free()
else:
    comm.Send(room, dest=1)
comm.Barrier()
