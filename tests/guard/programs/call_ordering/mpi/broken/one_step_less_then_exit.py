"""The last rank has four batches, the others five; then the script ends."""
# ranks: 3
# finding: peer-gone
# out of line: 2
# cause: uneven-steps

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
num_batches = 4 if comm.rank == comm.size - 1 else 5  # fixed: num_batches = 4
gradient, total = np.ones(16), np.zeros(16)
for _ in range(num_batches):
    gradient *= 0.9
    comm.Allreduce(gradient, total)  # <- here
print("rank", comm.rank, "did", num_batches)
