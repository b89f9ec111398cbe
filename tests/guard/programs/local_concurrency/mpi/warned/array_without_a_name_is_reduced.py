"""The array that a reduction sends has no name, so it is freed while the reduction is under way."""
# ranks: 3
# warning: buffer-in-use
# warned ranks: 0 1 2
# says: dropped the array of Iallreduce

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
total = np.zeros(2)
# fixed: mine = np.full(2, 1.0)
request = comm.Iallreduce(np.full(2, 1.0), total)  # <- here  # fixed: request = comm.Iallreduce(mine, total)
request.Wait()
print("rank", comm.rank, total.size)
