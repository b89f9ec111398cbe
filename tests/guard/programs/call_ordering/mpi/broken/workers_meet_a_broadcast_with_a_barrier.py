"""The workers take part in a barrier where their parents broadcast."""
# ranks: 2
# finding: mismatch operation
# out of line: 0 1 2 3
# cause: different-collectives
# says: ranks 0-1 of the spawned WORLD call Barrier

import sys

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
task = np.zeros(200_000)
if len(sys.argv) > 1:
    parents = MPI.Comm.Get_parent()
    parents.Barrier()  # <- here  # fixed: parents.Bcast(task, root=0)
    parents.Barrier()
    parents.Disconnect()
    sys.exit()
workers = comm.Spawn(sys.executable, [__file__, "worker"], maxprocs=2)
workers.Bcast(task, root=MPI.ROOT if comm.rank == 0 else MPI.PROC_NULL)  # <- here
workers.Barrier()
workers.Disconnect()
