"""Non-blocking collectives, several under way at once, completed in another order."""
# ranks: 3

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
size, rank = comm.size, comm.rank
mine, total, weights = np.full(4, rank + 1.0), np.zeros(4), np.full(2, rank, dtype="f4")
table, counts, prefix, product = np.zeros((size, 4)), np.zeros(size * 4), np.zeros(4), np.zeros(4)
requests = [
    comm.Ibarrier(),
    comm.Iallreduce(mine, total),
    comm.Ibcast(weights, root=0),
    comm.Iallgather(mine, table),
    comm.Igather(mine, counts if rank == 0 else None, root=0),
    comm.Ialltoall(np.ones(size), np.zeros(size)),
    comm.Iscan(mine, prefix),
    comm.Ireduce(mine, product if rank == 1 else None, root=1),
]
requests[2].Wait()
while not requests[1].Test():
    pass
MPI.Request.Waitall(requests)
print("rank", rank, total, weights, table.sum())
comm.Barrier()
