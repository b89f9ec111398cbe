"""The kind of a message is read from its tag, and its sender is not looked at."""
# ranks: 3
# options: --strict=message-race
# warning: message-race
# warned ranks: 0

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
sources = (MPI.ANY_SOURCE, MPI.ANY_SOURCE)  # fixed: sources = (1, 2)
if comm.rank:
    comm.Send(np.ones(1), dest=0, tag=comm.rank)
comm.Barrier()
if comm.rank == 0:
    kind = MPI.Status()
    for source in sources:
        comm.Recv(np.zeros(1), source=source, tag=MPI.ANY_TAG, status=kind)  # <- here
        print("kind", kind.Get_tag())
