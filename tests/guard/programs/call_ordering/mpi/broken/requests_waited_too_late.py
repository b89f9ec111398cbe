"""Receives are posted, but the waits come after a barrier that the sender of the last message never passes."""
# ranks: 3
# finding: deadlock
# out of line: 0 | 1 2
# cause: send-without-receive | message-order | receive-without-send

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
big = 200_000
if comm.rank == 0:
    buffers = [np.empty(big) for _ in range(comm.size - 1)]
    comm.Barrier()  # fixed: pass
    requests = [comm.Irecv(buffer, source=number + 1) for number, buffer in enumerate(buffers)]
    # fixed: comm.Barrier()
    MPI.Request.Waitall(requests)
    print(sum(float(buffer[0]) for buffer in buffers))
else:
    comm.Ssend(np.full(big, float(comm.rank)), dest=0)  # <- here
    comm.Barrier()
