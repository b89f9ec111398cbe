"""Rank 0 looks for a message that nobody sends."""
# ranks: 3
# finding: deadlock
# out of line: 0
# cause: receive-without-send

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
if comm.rank == 0:
    status = MPI.Status()
    comm.Probe(source=MPI.ANY_SOURCE, tag=2, status=status)  # <- here
    room = np.empty(status.Get_count(MPI.DOUBLE))
    comm.Recv(room, source=status.Get_source(), tag=2)
# fixed: if comm.rank == 1: comm.Send(np.ones(3), dest=0, tag=2)
comm.Barrier()
