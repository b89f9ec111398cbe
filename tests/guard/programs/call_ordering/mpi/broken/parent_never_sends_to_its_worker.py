"""One parent does not send the work for which a worker waits; both go on to the end of the job."""
# ranks: 2
# finding: deadlock
# out of line: 1
# cause: receive-without-send
# says: rank 1 of the spawned WORLD waits for its message

import sys

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
work = np.zeros(4)
if len(sys.argv) > 1:
    parents = MPI.Comm.Get_parent()
    parents.Recv(work, source=comm.rank, tag=3)  # <- here
    parents.Barrier()
    parents.Disconnect()
    sys.exit()
workers = comm.Spawn(sys.executable, [__file__, "worker"], maxprocs=2)
if comm.rank == 0:  # fixed: if True:
    workers.Send(work, dest=comm.rank, tag=3)
workers.Barrier()  # <- here
workers.Disconnect()
