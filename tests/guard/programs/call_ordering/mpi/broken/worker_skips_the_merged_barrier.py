"""Parents and workers become one group; a worker leaves out the barrier of all and ends."""
# ranks: 2
# finding: peer-gone
# out of line: 3
# cause: early-exit | rank-conditional-call | skipped-call
# says: rank 1 of the spawned WORLD

import sys

from mpi4py import MPI

comm = MPI.COMM_WORLD
is_worker = len(sys.argv) > 1
bridge = MPI.Comm.Get_parent() if is_worker else comm.Spawn(sys.executable, [__file__, "worker"], maxprocs=2)
everybody = bridge.Merge(high=is_worker)
pairs = everybody.Split(color=everybody.rank % 2, key=everybody.rank)
pairs.allreduce(everybody.rank)
if is_worker and comm.rank == 1:  # fixed: if False:
    sys.exit()
everybody.Barrier()  # <- here
pairs.Free()
everybody.Free()
bridge.Disconnect()
