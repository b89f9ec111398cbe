"""Neighbours sort in pairs; the last of an odd number of ranks has no partner in some phases, and takes a wrong one."""
# ranks: 5
# finding: peer-gone
# out of line: 3 4
# says: which waits in sendrecv

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
values = np.random.default_rng(comm.rank).random(4)
for phase in range(comm.size):
    partner = comm.rank + 1 if (comm.rank + phase) % 2 == 0 else comm.rank - 1
    if partner < 0:
        continue
    if partner == comm.size:
        partner = comm.rank - 1  # fixed: continue
    others = comm.sendrecv(values, dest=partner, source=partner)  # <- here
    both = np.sort(np.concatenate([values, others]))
    values = both[:4] if comm.rank < partner else both[4:]
print("rank", comm.rank, "done")
