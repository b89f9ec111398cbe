"""The last rank has four batches, the others five; then all hand in their results."""
# ranks: 4
# finding: mismatch operation
# out of line: 3
# cause: uneven-steps

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
num_batches = 4 if comm.rank == comm.size - 1 else 5
# fixed: num_batches = comm.allreduce(num_batches, op=MPI.MIN)
gradient, total = np.ones(16), np.zeros(16)
for _ in range(num_batches):
    comm.Allreduce(gradient, total)  # <- here
results = comm.gather(total[0], root=0)
print("rank", comm.rank, results)
