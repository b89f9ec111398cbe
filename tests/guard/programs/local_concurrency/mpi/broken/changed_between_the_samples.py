"""One element in the middle of a large array is changed while the array is sent."""
# ranks: 2
# not found: of buffers above 2 KiB only eight parts of 256 bytes are compared

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
block = np.ones(1_000_000)
if comm.rank == 0:
    request = comm.Isend(block, dest=1)
    # fixed: request.Wait()
    block[400_003] = 2.0  # <- here
    request.Wait()
else:
    comm.Recv(block, source=0)
comm.Barrier()
