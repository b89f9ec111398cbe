"""A rank clears its halo after it has posted the receive for it."""
# ranks: 2
# not found: writes of Python code to what a receive writes cannot be told from those of the receive

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
mine, halo = np.ones(4), np.empty(4)
request = comm.Irecv(halo, source=1 - comm.rank)
halo[:] = 0.0  # <- here  # fixed: pass
comm.Send(mine, dest=1 - comm.rank)
request.Wait()
