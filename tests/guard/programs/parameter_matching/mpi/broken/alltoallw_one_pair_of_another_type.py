"""Each pair has a type of its own; ranks 0 and 2 do not agree on theirs."""
# ranks: 3
# finding: mismatch dtype
# out of line: 0 2
# cause: dtype

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
sent, received = np.zeros(8 * size, dtype="u1"), np.zeros(8 * size, dtype="u1")
counts, places = [1] * size, [8 * other for other in range(size)]
send_types, receive_types = [MPI.DOUBLE] * size, [MPI.DOUBLE] * size
if rank == 0:
    receive_types[2] = MPI.INT64_T  # fixed: receive_types[2] = MPI.DOUBLE
comm.Alltoallw([sent, (counts, places), send_types], [received, (counts, places), receive_types])  # <- here
print("rank", rank, received.sum())
