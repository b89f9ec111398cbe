"""An array is sent as it is, and received as a pickled object."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
if comm.rank == 0:
    comm.Send(np.zeros(4), dest=1)
elif comm.rank == 1:
    print(comm.recv(source=0))  # <- here
comm.Barrier()
