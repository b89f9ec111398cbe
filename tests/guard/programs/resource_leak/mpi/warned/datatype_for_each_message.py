"""A datatype is made for each message."""
# ranks: 2
# warning: handle-leak
# warned ranks: 0 1
# says: datatypes

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
grid = np.zeros((4, 4))
for _ in range(1200):
    column = MPI.DOUBLE.Create_vector(4, 1, 4)  # <- here
    column.Commit()
    # fixed: column.Free()
comm.Barrier()
