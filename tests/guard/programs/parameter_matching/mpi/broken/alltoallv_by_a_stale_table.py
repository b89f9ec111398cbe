"""Experts get other tokens in every step; one rank still uses the counts of the step before."""
# ranks: 4
# finding: mismatch count
# out of line: 2
# cause: splits

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
expects = np.ones(size, dtype="i")
for step in range(3):
    sends = np.array([1 + (rank + expert + step) % 3 for expert in range(size)], dtype="i")
    told = np.empty(size, dtype="i")
    comm.Alltoall(sends, told)
    if rank != 2 or step == 0:  # fixed: if True:
        expects = told
    tokens, routed = np.full(sends.sum(), rank, dtype="f4"), np.empty(expects.sum(), dtype="f4")
    comm.Alltoallv([tokens, sends], [routed, expects])  # <- here
print("rank", rank, routed.size)
