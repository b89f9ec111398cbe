"""Collectives that take a count per rank: nothing has to be equal."""
# ranks: 3

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
size, rank = comm.size, comm.rank
counts = [number + 1 for number in range(size)]
starts = [sum(counts[:number]) for number in range(size)]
mine, everything = np.full(rank + 1, rank, dtype="i8"), np.zeros(sum(counts), dtype="i8")
comm.Gatherv(mine, [everything, counts] if rank == 0 else None, root=0)
comm.Allgatherv(mine, [everything, counts, starts, MPI.INT64_T])
back = np.zeros(rank + 1, dtype="i8")
comm.Scatterv([everything, counts, starts, MPI.INT64_T] if rank == 0 else None, back, root=0)
given = np.full(size * (rank + 1), rank, dtype="i8")
taken = np.zeros(sum(counts), dtype="i8")
comm.Alltoallv([given, [rank + 1] * size], [taken, counts])
types = [MPI.INT64_T] * size
comm.Alltoallw(
    [given, [rank + 1] * size, [8 * (rank + 1) * other for other in range(size)], types],
    [taken, counts, [8 * start for start in starts], types],
)
share = np.zeros(rank + 1, dtype="i8")
comm.Reduce_scatter(np.ones(sum(counts), dtype="i8"), share, recvcounts=counts)
print("rank", rank, everything, back, taken, share)
