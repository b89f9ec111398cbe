"""A persistent send is started again before it has completed, which the library refuses."""
# ranks: 2
# finding: peer-gone
# out of line: 0
# cause: exception

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
block = np.ones(4)
if comm.rank == 0:
    request = comm.Send_init(block, dest=1)
    for _ in range(2):
        request.Start()  # <- here
        # fixed: request.Wait()
    request.Wait()
    request.Free()
else:
    comm.Recv(block, source=0)
    comm.Recv(block, source=0)
comm.Barrier()
