"""Odd-even sort: tags count the phases; the last rank exchanges in phases in which it has no partner."""
# ranks: 4
# finding: message tag | deadlock
# out of line: 2 3 | 3 | 1 2
# cause: message-order | receive-without-send | send-without-receive

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
mine, theirs = np.sort(np.random.default_rng(comm.rank).random(4)), np.empty(4)
for phase in range(comm.size):
    partner = comm.rank + 1 if (comm.rank + phase) % 2 == 0 else comm.rank - 1
    if comm.rank == 3:
        partner = 2  # fixed: pass
    if 0 <= partner < comm.size:
        comm.Sendrecv(mine, partner, sendtag=phase, recvbuf=theirs, source=partner, recvtag=phase)  # <- here
        both = np.sort(np.concatenate([mine, theirs]))
        mine = both[:4] if comm.rank < partner else both[4:]
comm.Barrier()
print("rank", comm.rank, "has sorted")
