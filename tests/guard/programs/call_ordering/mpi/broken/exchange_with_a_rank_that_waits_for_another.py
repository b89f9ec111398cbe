"""Ranks exchange in a ring by Isendrecv; one names the wrong neighbour and waits for what nobody sends to it."""
# ranks: 3
# finding: message source
# out of line: 0 2
# cause: wrong-source

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
given, taken = np.full(3, float(comm.rank)), np.empty(3)
right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
source = right if comm.rank == 0 else left  # fixed: source = left
request = comm.Isendrecv(given, right, 0, taken, source, 0)  # <- here
request.Wait()
comm.Barrier()  # <- here
