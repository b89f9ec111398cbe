"""Rank 1 frees its datatype in the first step and receives with it in the second."""
# ranks: 2
# finding: peer-gone
# out of line: 1
# cause: exception

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
matrix = np.arange(16.0).reshape(4, 4)
column = MPI.DOUBLE.Create_vector(4, 1, 4).Commit()
for step in range(2):
    if comm.rank == 0:
        comm.Ssend([matrix, 1, column], dest=1)
    else:
        comm.Recv([matrix, 1, column], source=0)  # <- here
        if step == 0:
            column.Free()  # fixed: print("first column", matrix[:, 0])
if column != MPI.DATATYPE_NULL:
    column.Free()
comm.Barrier()
