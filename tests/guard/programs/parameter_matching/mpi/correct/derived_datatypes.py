"""A column on one side, plain numbers on the other; the same with a broadcast and a sum of halves."""
# ranks: 3

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
column = MPI.DOUBLE.Create_vector(4, 1, 5).Commit()
pair = MPI.DOUBLE.Create_contiguous(2).Commit()
table, flat = np.arange(20.0).reshape(4, 5), np.zeros(4)
if comm.rank == 0:
    comm.Send([table, 1, column], dest=1, tag=1)
    comm.Bcast([table, 1, column], root=0)
    comm.Send([flat, 2, pair], dest=1, tag=2)
else:
    if comm.rank == 1:
        comm.Recv(flat, source=0, tag=1)
    comm.Bcast([flat, 4, MPI.DOUBLE], root=0)
    if comm.rank == 1:
        comm.Recv([table, 4, MPI.DOUBLE], source=0, tag=2)
comm.Allgather([flat, 2, pair] if comm.rank else [flat, 4, MPI.DOUBLE], np.zeros(4 * comm.size))
print("rank", comm.rank, flat, table[0])
column.Free()
pair.Free()
