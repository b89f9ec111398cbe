"""Of the workers that were spawned, one comes to their sum without the barrier before it."""
# ranks: 2
# finding: mismatch operation
# out of line: 3 | 1
# cause: skipped-call | rank-conditional-call

import sys

from mpi4py import MPI

comm = MPI.COMM_WORLD
if len(sys.argv) > 1:
    comm.Barrier()
    if comm.rank != 1:  # fixed: if True:
        comm.Barrier()  # <- here
    comm.allreduce(1)
    MPI.Comm.Get_parent().Disconnect()
    sys.exit()
workers = comm.Spawn(sys.executable, [__file__, "worker"], maxprocs=3)
workers.Disconnect()
print("rank", comm.rank)
