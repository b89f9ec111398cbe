"""A reduction is started, and its result gathered before the wait."""
# ranks: 2
# warning: buffer-in-use
# warned ranks: 0 1
# says: Allgather at

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
mine, total, table = np.ones(4), np.empty(4), np.empty((comm.size, 4))
request = comm.Iallreduce(mine, total)
# fixed: request.Wait()
comm.Allgather(total, table)  # <- here
request.Wait()
