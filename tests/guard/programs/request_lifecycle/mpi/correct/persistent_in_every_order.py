"""Persistent requests that are started one by one and together, waited for before the next start, freed when idle."""
# ranks: 3

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
left, right = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
mine, theirs = np.zeros(4), np.zeros(4)
sending, receiving = comm.Send_init(mine, dest=right), comm.Recv_init(theirs, source=left)
unused = comm.Recv_init(np.zeros(1), source=left, tag=99)
for step in range(5):
    mine[:] = 10 * comm.rank + step
    if step % 2:
        MPI.Prequest.Startall([receiving, sending])
        MPI.Request.Waitall([sending, receiving])
    else:
        sending.Start()
        receiving.Start()
        receiving.Wait()
        while not sending.Test():
            pass
    sending.Wait()  # of a request that is not active: returns at once
print("rank", comm.rank, theirs)
for request in (sending, receiving, unused):
    request.Free()
