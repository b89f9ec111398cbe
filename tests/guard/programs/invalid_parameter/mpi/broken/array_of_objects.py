"""One rank has read strings among its numbers, so numpy made an array of objects, which MPI has no type for."""
# ranks: 3
# finding: peer-gone
# out of line: 2
# cause: exception

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
column = [1.0, 2.0] if comm.rank < 2 else [1.0, "2"]
values = np.array(column, dtype="f8" if comm.rank < 2 else object)  # fixed: values = np.array(column, dtype="f8")
total = np.zeros(2)
comm.Allreduce(values, total)  # <- here
print("rank", comm.rank, total)
