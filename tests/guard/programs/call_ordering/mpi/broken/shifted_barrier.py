"""Rank 0 meets once more when it saves; it pairs with the others' next step, and fails 300 steps later."""
# ranks: 3
# finding: mismatch operation
# out of line: 0
# cause: rank-conditional-call

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
total = np.zeros(1)


def save(step: int) -> None:
    comm.Barrier()  # <- here


for step in range(300):
    if step == 5 and comm.rank == 0:  # fixed: if step == 5:
        save(step)
    comm.Barrier()
comm.Allreduce(np.ones(1), total)
print("rank", comm.rank, total)
