"""Labels are sent as int64 and received as float64; silent in both libraries."""
# ranks: 2
# finding: message dtype
# out of line: 0 1
# cause: dtype

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
if comm.rank == 0:
    comm.Send(np.arange(4, dtype="i8"), dest=1, tag=3)  # <- here
elif comm.rank == 1:
    labels = np.empty(4, dtype="f8")  # fixed: labels = np.empty(4, dtype="i8")
    comm.Recv(labels, source=0, tag=3)  # <- here
    print(labels)
comm.Barrier()
