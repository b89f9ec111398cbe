"""Rank 0 does not take part in the second non-blocking collective write."""
# ranks: 3
# finding: mismatch operation
# out of line: 0

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
file = MPI.File.Open(comm, "steps.bin", MPI.MODE_CREATE | MPI.MODE_WRONLY)
part = np.full(4, comm.rank, dtype="f8")
for step in range(2):
    if comm.rank != 0 or step == 0:  # fixed: if True:
        file.Iwrite_at_all(32 * comm.rank, part).Wait()  # <- here
file.Sync()
file.Close()
