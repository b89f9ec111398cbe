"""Rank 0 sends with a datatype that it has made and not committed."""
# ranks: 2
# finding: peer-gone
# out of line: 0
# cause: exception

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
matrix = np.arange(16.0).reshape(4, 4)
column = MPI.DOUBLE.Create_vector(4, 1, 4)
if comm.rank == 1:
    column.Commit()
# fixed: column.Commit()
if comm.rank == 0:
    comm.Send([matrix, 1, column], dest=1)  # <- here
else:
    comm.Recv([matrix, 1, column], source=0)
column.Free()
comm.Barrier()
