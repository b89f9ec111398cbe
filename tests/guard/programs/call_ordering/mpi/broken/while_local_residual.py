"""A solver iterates while its own residual is large; ranks converge after different numbers of iterations."""
# ranks: 4
# finding: mismatch operation
# out of line: 0 | 0 1 | 3 | 1 2 3 | 2 3
# cause: uneven-steps
# says: decide it together

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rates = [0.2, 0.6, 0.6, 0.6]
residual, iterations = 1.0, 0
solution = np.zeros(4)
while residual > 0.01:
    update = np.full(4, residual)
    comm.Allreduce(MPI.IN_PLACE, update)  # <- here
    solution += update
    residual *= rates[comm.rank]  # fixed: residual = comm.allreduce(residual * rates[comm.rank], op=MPI.MAX)
    iterations += 1
counts = comm.gather(iterations, root=0)
if comm.rank == 0:
    print(counts, solution.shape)
