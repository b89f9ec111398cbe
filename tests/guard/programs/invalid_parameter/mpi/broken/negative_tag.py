"""Tags are built from an offset that is not set on one rank: a tag below zero does not exist."""
# ranks: 3
# finding: argument tag
# out of line: 1
# cause: no-such-rank

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
offset = -100 if comm.rank == 1 else 100  # fixed: offset = 100
edge = np.full(2, comm.rank, dtype="f8")
if comm.rank == 0:
    for source in range(1, comm.size):
        comm.Recv(edge, source=source, tag=100 + source)
else:
    comm.Send(edge, dest=0, tag=offset + comm.rank)  # <- here
comm.Barrier()
