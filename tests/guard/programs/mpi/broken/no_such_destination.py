"""The last rank's right neighbour does not exist; its left neighbour waits."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
edge = np.full(2, comm.rank, dtype="f8")
if comm.rank > 0:
    comm.Recv(edge, source=comm.rank - 1)
comm.Send(edge, dest=comm.rank + 1)  # <- here
comm.Barrier()
