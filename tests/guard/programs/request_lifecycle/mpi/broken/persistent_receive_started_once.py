"""A persistent receive is started before the loop and not in it: the second wait returns at once with old values."""
# ranks: 2
# finding: deadlock | peer-gone
# cause: send-without-receive

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
block = np.zeros(100_000)
if comm.rank == 1:
    request = comm.Recv_init(block, source=0)
    request.Start()
    for step in range(3):
        # fixed: if step: request.Start()
        request.Wait()
        print(step, block[0])
    request.Free()
else:
    for step in range(3):
        block[:] = step
        comm.Send(block, dest=1)  # <- here
comm.Barrier()
