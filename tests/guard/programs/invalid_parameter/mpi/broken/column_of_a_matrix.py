"""A column of a matrix is not contiguous: rank 0 broadcasts it as it is."""
# ranks: 2
# finding: peer-gone
# out of line: 0
# cause: exception

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
matrix = np.arange(16.0).reshape(4, 4)
column = np.empty(4)
if comm.rank == 0:
    column = matrix[:, 1]  # fixed: column = matrix[:, 1].copy()
comm.Bcast(column, root=0)  # <- here
comm.Barrier()
