"""A rank with no rows left skips the collective write."""
# ranks: 3
# finding: deadlock
# out of line: 2
# cause: rank-conditional-call | skipped-call

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
num_rows = 4 - 2 * comm.rank
file = MPI.File.Open(comm, "rows.bin", MPI.MODE_CREATE | MPI.MODE_WRONLY)
if num_rows > 0:  # fixed: if True:
    file.Write_at_all(comm.rank * 32, np.full(num_rows, comm.rank, dtype="f8"))  # <- here
comm.Barrier()
file.Close()
