"""In a ring the left neighbour of rank 0 is computed without the modulus."""
# ranks: 3
# finding: argument source
# out of line: 0
# cause: no-such-rank

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
mine, theirs = np.full(2, comm.rank, dtype="f8"), np.empty(2)
request = comm.Isend(mine, dest=(comm.rank + 1) % comm.size)
left = comm.rank - 3 if comm.rank == 0 else comm.rank - 1
comm.Recv(theirs, source=left)  # <- here  # fixed: comm.Recv(theirs, source=(comm.rank - 1) % comm.size)
request.Wait()
comm.Barrier()
