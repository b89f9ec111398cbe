"""A worker that was spawned ends before the barrier with its parents."""
# ranks: 2
# finding: peer-gone
# out of line: 3
# cause: early-exit | rank-conditional-call | skipped-call
# says: rank 1 of the spawned WORLD

import sys

from mpi4py import MPI

comm = MPI.COMM_WORLD
if len(sys.argv) > 1:
    parents = MPI.Comm.Get_parent()
    if comm.rank == 1:  # fixed: if False:
        sys.exit()
    parents.Barrier()  # <- here
    parents.Disconnect()
    sys.exit()
workers = comm.Spawn(sys.executable, [__file__, "worker"], maxprocs=2)
workers.Barrier()  # <- here
workers.Disconnect()
