"""A halo exchange with Isend and Irecv, completed in four ways."""
# ranks: 4

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
cells = np.full(6, comm.rank, dtype="f8")
for step in range(12):
    requests = [
        comm.Irecv(cells[:1], source=left, tag=step),
        comm.Irecv(cells[-1:], source=right, tag=step + 100),
        comm.Isend(cells[-2:-1].copy(), dest=right, tag=step),
        comm.Isend(cells[1:2].copy(), dest=left, tag=step + 100),
    ]
    if step % 4 == 0:
        MPI.Request.Waitall(requests)
    elif step % 4 == 1:
        while MPI.Request.Waitany(requests) != MPI.UNDEFINED:
            pass
    elif step % 4 == 2:
        while MPI.Request.Waitsome(requests) is not None:
            pass
    else:
        for request in requests:
            request.Wait()
    cells[1:-1] = (cells[:-2] + cells[2:]) / 2
print("rank", comm.rank, cells.round(6))
