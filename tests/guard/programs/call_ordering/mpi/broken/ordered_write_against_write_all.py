"""Rank 0 appends its header in order, the others write theirs together."""
# ranks: 3
# finding: mismatch operation
# out of line: 0

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
file = MPI.File.Open(comm, "log.bin", MPI.MODE_CREATE | MPI.MODE_WRONLY)
if comm.rank == 0:  # fixed: if comm.rank < 0:
    file.Write_ordered(np.zeros(2))  # <- here
else:
    file.Write_all(np.zeros(2))
file.Close()
