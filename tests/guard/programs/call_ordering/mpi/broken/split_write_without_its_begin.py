"""Rank 1 ends a split write that it has not begun: it forgot the first half, and the others are in it."""
# ranks: 3
# finding: mismatch operation
# out of line: 1

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
part = np.full(4, comm.rank, dtype="f8")
file = MPI.File.Open(comm, "split.bin", MPI.MODE_CREATE | MPI.MODE_WRONLY)
if comm.rank != 1:  # fixed: if True:
    file.Write_at_all_begin(32 * comm.rank, part)  # <- here
    file.Write_at_all_end(part)
file.Close()
