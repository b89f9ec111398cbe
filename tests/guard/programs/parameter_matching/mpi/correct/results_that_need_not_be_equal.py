"""What comes out of collectives differs between ranks where it may, and only in form where it may not."""
# ranks: 3

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank = comm.rank
for _ in range(100):
    comm.Scatter(np.arange(3.0) if rank == 0 else None, np.empty(1))
    comm.Reduce(np.ones(2), np.empty(2) if rank == 0 else None)
    comm.Scan(np.ones(2), np.empty(2))
    comm.Gather(np.full(1, float(rank)), np.empty(3) if rank == 1 else None, root=1)
    comm.Alltoall(np.arange(3) + rank, np.empty(3, dtype=int))
    # one of the forms of zero, and of what is not a number
    comm.Allreduce(np.full(3, -0.0 if rank else 0.0), np.empty(3), op=MPI.MAX)
    comm.Allreduce(np.full(3, -np.nan if rank else np.nan), np.empty(3))
    # only what is broadcast is the same
    table = np.full(6, float(rank))
    comm.Bcast([table, 3, MPI.DOUBLE])
    comm.Allreduce(MPI.IN_PLACE, table)
    comm.Allgather(np.full(2, rank), np.empty((3, 2), dtype=int))
    comm.Bcast(bytearray(b"words"), root=2)
    part = comm.Split(rank % 2)
    part.Allreduce(np.full(2, rank), np.empty(2, dtype=int))
    part.Free()
print("rank", rank)
