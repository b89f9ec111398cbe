"""A ring passes on what it receives, one line before the wait."""
# ranks: 3
# warning: buffer-in-use
# warned ranks: 1 2
# says: Send at
# says: used the buffer of Irecv at

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
part = np.full(6, float(comm.rank))
right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
if comm.rank == 0:
    comm.Send(part, dest=right)
    comm.Recv(part, source=left)
else:
    request = comm.Irecv(part, source=left)
    # fixed: request.Wait()
    comm.Send(part, dest=right)  # <- here
    request.Wait()
