"""A rank waits for a message in parts that its sender has prepared and never starts."""
# ranks: 2
# finding: deadlock
# out of line: 0 1
# cause: receive-without-send

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
parts = np.zeros(8)
if comm.rank == 0:
    request = comm.Psend_init(parts, 4, dest=1, tag=2)
    # fixed: request.Start()
    for part in range(0):  # fixed: for part in range(4):
        request.Pready(part)
    # fixed: request.Wait()
else:
    request = comm.Precv_init(parts, 4, source=0, tag=2)
    request.Start()
    request.Wait()  # <- here
comm.Barrier()  # <- here
request.Free()
