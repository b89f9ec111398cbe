"""Two receives from anybody are posted at once; which message meets which of them depends on timing."""
# ranks: 3
# not found: posted receives from any rank are left out, because when they took their message is not known

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rows = np.zeros((2, 1))
if comm.rank:
    comm.Send(np.full(1, comm.rank, dtype="f8"), dest=0)
comm.Barrier()
if comm.rank == 0:
    sources = (MPI.ANY_SOURCE, MPI.ANY_SOURCE)  # fixed: sources = (1, 2)
    requests = [comm.Irecv(row, source=source) for row, source in zip(rows, sources, strict=True)]  # <- here
    MPI.Request.Waitall(requests)
