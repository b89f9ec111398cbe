"""Rank 1 combines its own flags by a bitwise operator, which does not exist for floats."""
# ranks: 3
# finding: peer-gone
# out of line: 1
# cause: exception

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
flags = np.ones(4, dtype="f8" if comm.rank == 1 else "i8")  # fixed: flags = np.ones(4, dtype="i8")
MPI.COMM_SELF.Allreduce(MPI.IN_PLACE, flags, op=MPI.BAND)  # <- here
comm.Barrier()
print("rank", comm.rank, flags)
