"""Rank 0 prepares its send and waits for it without having started it: the wait returns, and nothing was sent."""
# ranks: 2
# finding: deadlock | peer-gone
# out of line: 0 | 0 1 | 1
# cause: receive-without-send | early-exit

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
edge = np.ones(2)
if comm.rank == 0:
    request = comm.Send_init(edge, dest=1)
    # fixed: request.Start()
    request.Wait()
    request.Free()
else:
    comm.Recv(edge, source=0)  # <- here
comm.Barrier()
