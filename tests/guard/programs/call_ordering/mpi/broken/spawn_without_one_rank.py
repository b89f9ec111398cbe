"""One rank does not take part when the others spawn workers."""
# ranks: 3
# finding: mismatch operation
# out of line: 2
# cause: skipped-call | rank-conditional-call | different-collectives

import sys

from mpi4py import MPI

if len(sys.argv) > 1:
    MPI.Comm.Get_parent().Disconnect()
    sys.exit()
comm = MPI.COMM_WORLD
comm.Barrier()
if comm.rank != 2:  # fixed: if True:
    workers = comm.Spawn(sys.executable, [__file__, "worker"], maxprocs=1)  # <- here
    workers.Disconnect()
comm.Barrier()
