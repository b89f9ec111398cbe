"""Rank 0 validates when half a second of computing is over, the others never: a collective that depends on a clock."""
# ranks: 3
# finding: mismatch operation
# out of line: 0
# cause: rank-conditional-call | extra-call | different-collectives

import time

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
begun = time.monotonic()
budget = 0.15 if comm.rank == 0 else 60.0
gradient = np.ones(8)
for _step in range(60):
    time.sleep(0.005)
    comm.Allreduce(MPI.IN_PLACE, gradient)
    gradient /= comm.size
    is_due = time.monotonic() - begun > budget  # fixed: is_due = comm.bcast(time.monotonic() - begun > budget, root=0)
    if is_due:
        score = comm.gather(float(gradient.sum()), root=0)  # <- here
        begun = time.monotonic()
print("rank", comm.rank, "done")
