"""Rank 1 frees its communicator after the last step and then logs once more over it."""
# ranks: 3
# finding: peer-gone
# out of line: 1
# cause: exception
# says: rank 1 raised

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
alone = MPI.COMM_SELF.Dup()
value = np.ones(1)
alone.Allreduce(MPI.IN_PLACE, value)
if comm.rank == 1:
    alone.Free()  # fixed: pass
alone.Allreduce(MPI.IN_PLACE, value)  # <- here
comm.Barrier()
if alone != MPI.COMM_NULL:
    alone.Free()
