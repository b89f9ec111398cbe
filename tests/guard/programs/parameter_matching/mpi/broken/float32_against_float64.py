"""Eight float32 have as many bytes as four float64: garbage, and exit code 0."""
# ranks: 3
# finding: mismatch dtype
# out of line: 2
# cause: dtype

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
comm.Barrier()
last = comm.rank == comm.size - 1
mine = np.ones(4, dtype="f8") if last else np.ones(8, dtype="f4")  # fixed: mine = np.ones(8, dtype="f4")
total = np.zeros_like(mine)
comm.Allreduce(mine, total)  # <- here
print("rank", comm.rank, total)
