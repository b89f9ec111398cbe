"""The last rank's right neighbour does not exist; its left neighbour waits."""
# ranks: 3
# finding: argument source
# out of line: 2

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
edge = np.full(2, comm.rank, dtype="f8")
if comm.rank > 0:
    comm.Recv(edge, source=comm.rank - 1)
# fixed: if comm.rank + 1 < comm.size:
comm.Send(edge, dest=comm.rank + 1)  # <- here  # fixed:     comm.Send(edge, dest=comm.rank + 1)
comm.Barrier()
