"""A decorator repeats a step that failed; on rank 2 the failure comes after the reduction, which it makes twice."""
# ranks: 4
# finding: mismatch operation | mismatch
# out of line: 2
# cause: extra-call

import functools

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD


def retried(function):
    @functools.wraps(function)
    def wrapper(*args):
        for attempt in range(3):
            try:
                return function(*args)
            except OSError:
                if attempt == 2:
                    raise
        return None

    return wrapper


attempts = {}


def append_to_log(step):
    attempts[step] = attempts.get(step, 0) + 1
    if comm.rank == 2 and step == 4 and attempts[step] == 1:
        raise OSError("Stale file handle")  # fixed: pass


@retried
def train_step(step):
    gradient = np.full(4, float(step))
    comm.Allreduce(MPI.IN_PLACE, gradient)  # <- here
    append_to_log(step)
    return gradient


for step in range(8):
    train_step(step)
    comm.Barrier()
print("rank", comm.rank, "done")
