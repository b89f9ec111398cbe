"""A tag is made of a time in nanoseconds, which is larger than any tag may be."""
# ranks: 2
# finding: argument tag
# out of line: 0
# cause: no-such-rank
# says: or more

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
stamp = 1_700_000_000_000_000_000
edge = np.ones(2)
if comm.rank == 0:
    comm.Send(edge, dest=1, tag=stamp)  # <- here  # fixed: comm.Send(edge, dest=1, tag=stamp % 1000)
else:
    comm.Recv(edge, source=0, tag=MPI.ANY_TAG)
comm.Barrier()
