"""A sum is started, and an element of what it sums is changed before the wait."""
# ranks: 3
# warning: buffer-in-use
# warned ranks: 0 1 2
# says: Iallreduce

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
mine, total = np.full(8, float(comm.rank)), np.empty(8)
request = comm.Iallreduce(mine, total)  # <- here
# fixed: request.Wait()
mine[3] += 1.0
request.Wait()
