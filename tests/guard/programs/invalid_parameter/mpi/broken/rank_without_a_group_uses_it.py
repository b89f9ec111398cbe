"""Rank 2 takes no part in the group, so it has the null communicator, and reduces over it all the same."""
# ranks: 3
# finding: peer-gone
# out of line: 2
# cause: exception

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
active = comm.Split(color=0 if comm.rank < 2 else MPI.UNDEFINED, key=comm.rank)
value = np.ones(1)
# fixed: if active != MPI.COMM_NULL:
active.Allreduce(MPI.IN_PLACE, value)  # <- here  # fixed:     active.Allreduce(MPI.IN_PLACE, value)
comm.Barrier()
if active != MPI.COMM_NULL:
    active.Free()
