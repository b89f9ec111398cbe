"""A broken file raises inside a step; the handler logs it and goes on, without the second of the step's two calls."""
# ranks: 3
# finding: mismatch operation
# out of line: 1
# cause: skipped-call
# says: rank 1 left out

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD


def read_sample(step):
    if (comm.rank, step) == (1, 6):
        raise ValueError("sample 6 has 3 columns")  # fixed: return np.zeros(4)
    return np.full(4, 2.0)


def step_once(step, weights):
    comm.Bcast(weights, root=0)
    gradient = weights - read_sample(step)
    comm.Allreduce(MPI.IN_PLACE, gradient)  # <- here
    weights -= 0.1 * gradient


weights = np.zeros(4)
for step in range(10):
    try:
        step_once(step, weights)
    except ValueError as error:
        print("rank", comm.rank, "skips:", error, flush=True)
    if step % 5 == 4:
        comm.Barrier()
print("rank", comm.rank, "done")
