"""In Alltoallv each pair must fit: even ranks send floats and get integers, odd ones the other way round."""
# ranks: 4

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
given, taken = (np.ones(2), np.zeros(2, "i8")) if comm.rank % 2 == 0 else (np.ones(2, "i8"), np.zeros(2))
counts = [2 if other == comm.rank ^ 1 else 0 for other in range(comm.size)]
comm.Alltoallv([given, counts], [taken, counts])
comm.Ialltoallv([given, counts], [taken, counts]).Wait()
comm.Alltoallw(
    [given, counts, [0] * comm.size, [MPI.DOUBLE if comm.rank % 2 == 0 else MPI.INT64_T] * comm.size],
    [taken, counts, [0] * comm.size, [MPI.INT64_T if comm.rank % 2 == 0 else MPI.DOUBLE] * comm.size],
)
print("rank", comm.rank, taken.tolist())
