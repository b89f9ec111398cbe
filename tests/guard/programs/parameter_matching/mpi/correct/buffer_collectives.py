"""Every collective on buffers, blocking, with all kinds of arguments."""
# ranks: 3

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
size, rank = comm.size, comm.rank
mine, total = np.arange(4.0) + rank, np.zeros(4)
table, one = np.zeros((size, 4)), np.zeros(4)
for _ in range(3):
    comm.Barrier()
    comm.Bcast(mine.copy(), root=size - 1)
    comm.Bcast([mine.copy(), 4, MPI.DOUBLE], root=0)
    comm.Reduce(mine, total if rank == 1 else None, op=MPI.MAX, root=1)
    comm.Reduce(MPI.IN_PLACE if rank == 0 else mine, mine.copy() if rank == 0 else None, root=0)
    comm.Allreduce(MPI.IN_PLACE, mine.copy(), op=MPI.MIN)
    comm.Allreduce([mine, MPI.DOUBLE], [total, MPI.DOUBLE])
    comm.Gather(mine, table if rank == 0 else None, root=0)
    table[rank] = mine
    comm.Gather(MPI.IN_PLACE if rank == 0 else mine, table if rank == 0 else None, root=0)
    comm.Allgather(mine, table)
    comm.Allgather(MPI.IN_PLACE, table)
    comm.Scatter(table if rank == 0 else None, one, root=0)
    comm.Scatter(table, MPI.IN_PLACE if rank == 0 else one, root=0)
    comm.Alltoall(np.arange(size * 2), np.zeros(size * 2, dtype="i8"))
    comm.Reduce_scatter_block(np.ones((size, 4)), one)
    comm.Scan(mine, total)
    comm.Exscan(mine, total)
comm.Barrier()
print("rank", rank, one.sum(), table.sum())
