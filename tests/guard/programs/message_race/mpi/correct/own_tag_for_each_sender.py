"""All send at once, each with a tag of its own; rank 0 takes them by their tags from anybody."""
# ranks: 4

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
if comm.rank:
    comm.Send(np.full(1, comm.rank, dtype="f8"), dest=0, tag=comm.rank)
comm.Barrier()
if comm.rank == 0:
    value = np.zeros(1)
    for tag in (2, 3, 1):
        comm.Recv(value, source=MPI.ANY_SOURCE, tag=tag)
        print("got", value[0])
