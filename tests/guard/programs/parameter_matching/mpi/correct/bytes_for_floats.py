"""The same bytes, called BYTE on one side and float on the other."""
# ranks: 2

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
values = np.arange(6, dtype="f4") if comm.rank == 0 else np.zeros(6, dtype="f4")
if comm.rank == 0:
    comm.Send([values, 24, MPI.BYTE], dest=1)
elif comm.rank == 1:
    comm.Recv(values, source=0)
    print(values)
comm.Bcast([values, 24, MPI.BYTE] if comm.rank == 0 else values, root=0)
raw = bytearray(24)
comm.Bcast(values.view("u1") if comm.rank == 0 else raw, root=0)
longer = np.full(10, -1.0)
if comm.rank == 0:
    comm.Send(np.ones(4), dest=1, tag=2)
elif comm.rank == 1:
    comm.Recv(longer, source=0, tag=2)
print("rank", comm.rank, values, longer)
