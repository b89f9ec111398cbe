"""Three thousand different tags between two ranks."""
# ranks: 2

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
room = np.zeros(1, dtype="i8")
total = 0
for tag in range(3000):
    if comm.rank == 0:
        room[0] = tag
        comm.Send(room, dest=1, tag=tag)
    elif comm.rank == 1:
        comm.Recv(room, source=0, tag=tag)
        total += int(room[0])
comm.Barrier()
print("rank", comm.rank, total)
