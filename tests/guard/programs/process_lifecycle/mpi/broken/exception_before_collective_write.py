"""Rank 2 raises while it makes its part, and the others wait in the collective write."""
# ranks: 3
# finding: peer-gone
# out of line: 2
# cause: exception

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
file = MPI.File.Open(comm, "state.bin", MPI.MODE_CREATE | MPI.MODE_WRONLY)
part = np.arange(6).reshape(3, -1 if comm.rank < 2 else 4)  # <- here # fixed: part = np.arange(6).reshape(3, -1)
file.Write_at_all(48 * comm.rank, part)
file.Close()
