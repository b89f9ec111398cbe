"""The last rank puts its edge into the window of a neighbour that does not exist; the others wait in the fence."""
# ranks: 3
# finding: peer-gone
# out of line: 2
# cause: exception

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
window = MPI.Win.Allocate(8, 8, comm=comm)
edge = np.full(1, comm.rank, dtype="f8")
window.Fence()
# fixed: if comm.rank + 1 < comm.size:
window.Put(edge, comm.rank + 1)  # <- here  # fixed:     window.Put(edge, comm.rank + 1)
window.Fence()
window.Free()
