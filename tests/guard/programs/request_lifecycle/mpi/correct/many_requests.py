"""Twelve hundred requests at once, received in the opposite order."""
# ranks: 2

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
num, peer = 1200, comm.rank ^ 1
if peer < comm.size:
    rooms, values = np.zeros((num, 2)), np.arange(2.0 * num).reshape(num, 2)
    receives = [comm.Irecv(rooms[at], source=peer, tag=at % 7) for at in range(num)]
    sends = [comm.Isend(values[at], dest=peer, tag=at % 7) for at in range(num)]
    MPI.Request.Waitall(sends)
    MPI.Request.Waitall(receives[::-1])
    print("rank", comm.rank, bool((rooms == values).all()))
comm.Barrier()
