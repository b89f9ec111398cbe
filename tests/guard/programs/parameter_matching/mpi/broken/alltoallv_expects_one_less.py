"""Rank 1 sends two rows to rank 0, which makes room for one."""
# ranks: 2
# finding: mismatch count
# out of line: 0 1
# cause: splits
# says: rank 1 sends 2 elements to rank 0
# says: rank 0 expects 1

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
sends = [1, 1] if comm.rank == 0 else [2, 1]
expects = [1, 1]  # fixed: expects = comm.alltoall(sends)
sent, received = np.ones(sum(sends)), np.zeros(sum(expects))
comm.Alltoallv([sent, sends], [received, expects])  # <- here
print("rank", comm.rank, received)
