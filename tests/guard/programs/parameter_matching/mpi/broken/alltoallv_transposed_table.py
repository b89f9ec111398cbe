"""The table of what goes where is known to all; one rank reads its column where it should read its row."""
# ranks: 4
# finding: mismatch count
# out of line: 3
# cause: splits

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
table = np.arange(size * size).reshape(size, size) % 5
sends = table[:, rank] if rank == 3 else table[rank]  # fixed: sends = table[rank]
expects = table[:, rank]
data, received = np.ones(sends.sum()), np.zeros(expects.sum())
comm.Alltoallv([data, (sends, None), MPI.DOUBLE], [received, (expects, None), MPI.DOUBLE])  # <- here
print("rank", rank, received.size)
