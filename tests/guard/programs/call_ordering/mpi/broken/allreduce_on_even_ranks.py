"""Only even ranks average; the others come to the end of the script."""
# ranks: 7
# finding: peer-gone
# out of line: 1 3 5

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
comm.Barrier()
value, total = np.ones(1), np.zeros(1)
if comm.rank % 2 == 0:  # fixed: if True:
    comm.Allreduce(value, total)  # <- here
print("rank", comm.rank, total)
