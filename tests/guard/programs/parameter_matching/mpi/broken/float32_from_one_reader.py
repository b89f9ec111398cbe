"""Rank 2 reads a file of float32, the others have the default float64."""
# ranks: 3
# finding: mismatch dtype
# out of line: 2
# cause: dtype
# says: f4

import io

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD


def load(rank):
    file = io.BytesIO()
    np.save(file, np.ones(32, dtype="f4" if rank == 2 else "f8"))  # fixed: np.save(file, np.ones(32))
    file.seek(0)
    return np.load(file)


def mean_over_ranks(values):
    total = np.empty_like(values)
    comm.Allreduce(values, total)  # <- here
    return total / comm.size


data = load(comm.rank)
for _ in range(4):
    data = mean_over_ranks(data)
print("rank", comm.rank, data[0])
