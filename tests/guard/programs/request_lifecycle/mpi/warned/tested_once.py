"""A rank tests once, finds that it is too early, and forgets about it."""
# ranks: 2
# warning: request-never-completed
# warned ranks: 0

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
room = np.zeros(2)


def listen():
    request = comm.Irecv(room, source=1)  # <- here
    return request.Test()  # fixed: comm.Barrier(); return request.Wait()


if comm.rank == 0:
    listen()
    comm.Barrier()  # fixed:
else:
    comm.Barrier()
    comm.Send(room, dest=0)
