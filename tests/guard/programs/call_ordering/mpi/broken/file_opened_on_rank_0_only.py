"""Only rank 0 opens the file for the results."""
# ranks: 3
# finding: mismatch operation
# out of line: 0
# cause: rank-conditional-call

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
total = np.zeros(1)
if comm.rank == 0:  # fixed: if True:
    file = MPI.File.Open(comm, "results.bin", MPI.MODE_CREATE | MPI.MODE_WRONLY)  # <- here
comm.Allreduce(np.ones(1), total)
if comm.rank == 0:  # fixed: if True:
    file.Close()
