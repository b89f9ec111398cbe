"""A persistent send is started in each step, and its buffer filled before the wait and not after it."""
# ranks: 2
# warning: buffer-in-use
# warned ranks: 0
# says: Send_init

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
part = np.zeros(300)
request = comm.Send_init(part, dest=1) if comm.rank == 0 else comm.Recv_init(part, source=0)  # <- here
for _ in range(3):
    request.Start()
    if comm.rank == 0:
        # fixed: request.Wait()
        part += 1.0
    request.Wait()
request.Free()
