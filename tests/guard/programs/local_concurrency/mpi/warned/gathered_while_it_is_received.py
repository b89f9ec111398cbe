"""Two collectives are under way at once and the second reads what the first writes."""
# ranks: 3
# warning: buffer-in-use
# warned ranks: 0 1 2

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
weights, table = np.full(2, comm.rank, dtype="f8"), np.zeros(2 * comm.size)
first = comm.Iallreduce(MPI.IN_PLACE, weights)
# fixed: first.Wait()
second = comm.Iallgather(weights, table)  # <- here
MPI.Request.Waitall([first, second])
