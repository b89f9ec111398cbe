"""Tags carry the step number; one rank counts from 1 after a restart."""
# ranks: 2
# finding: message tag
# out of line: 0 1 | 1 | 0
# cause: wrong-tag

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
first_step = 1 if comm.rank == 1 else 0  # fixed: first_step = 0
other = 1 - comm.rank
mine, theirs = np.full(5, float(comm.rank)), np.empty(5)
for step in range(first_step, first_step + 5):
    request = comm.Isend(mine, dest=other, tag=100 + step)
    comm.Recv(theirs, source=other, tag=100 + step)  # <- here
    request.Wait()
    mine = 0.5 * (mine + theirs)
print("rank", comm.rank, mine[0])
