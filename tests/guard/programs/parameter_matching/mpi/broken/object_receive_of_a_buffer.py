"""An array is sent as it is, and received as a pickled object."""
# ranks: 3
# finding: peer-gone | message dtype
# out of line: 1 | 0 1

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
if comm.rank == 0:
    comm.Send(np.zeros(4), dest=1)  # fixed: comm.send(np.zeros(4), dest=1)
elif comm.rank == 1:
    print(comm.recv(source=0))  # <- here
comm.Barrier()
