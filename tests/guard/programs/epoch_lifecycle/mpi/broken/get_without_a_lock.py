"""A rank reads from the window of another without a lock."""
# ranks: 2
# finding: peer-gone
# out of line: 1
# cause: exception
# warning with Open MPI: buffer-in-use

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
window = MPI.Win.Allocate(8, 8, comm=comm)
value = np.zeros(1)
comm.Barrier()
if comm.rank == 1:
    # fixed: window.Lock(0)
    window.Get(value, 0)  # <- here
    # fixed: window.Unlock(0)
comm.Barrier()
window.Free()
