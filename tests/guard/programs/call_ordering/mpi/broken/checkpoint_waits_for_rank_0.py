"""Rank 0 writes checkpoints, and waits for the others in a barrier that only it makes."""
# ranks: 3
# finding: mismatch operation
# out of line: 0
# cause: rank-conditional-call
# says: if comm.rank == 0

import os
import tempfile

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD


def save(step, weights):
    with tempfile.TemporaryDirectory() as folder:
        np.save(os.path.join(folder, f"{step}.npy"), weights)


weights = np.zeros(16)
for step in range(1, 13):
    gradient = np.full(16, 1.0 / step)
    comm.Allreduce(MPI.IN_PLACE, gradient)
    weights -= 0.1 * gradient / comm.size
    if step % 4 == 0:
        mean = float(weights.mean())
        if comm.rank == 0:
            save(step, weights)
            comm.Barrier()  # <- here  # fixed: pass
        # fixed: comm.Barrier()
norm = comm.allreduce(float(np.linalg.norm(weights)), op=MPI.MAX)
if comm.rank == 0:
    print("norm", round(norm, 3))
