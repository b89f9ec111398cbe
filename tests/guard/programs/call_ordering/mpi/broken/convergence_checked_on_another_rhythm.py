"""Every 4th iteration is checked by a reduction; one rank started its count at 1."""
# ranks: 3
# finding: mismatch operation | deadlock | peer-gone
# out of line: 2
# cause: rank-conditional-call

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD


def iterate(start):
    field = np.ones(6)
    for iteration in range(start, start + 12):
        comm.Bcast(field, root=0)  # <- here
        field *= 0.5
        if iteration % 4 == 3:
            norm = comm.allreduce(float(field.sum()), op=MPI.MAX)  # <- here
            if norm < 1e-9:
                break
    return field


start = 1 if comm.rank == 2 else 0  # fixed: start = 0
print("rank", comm.rank, iterate(start).shape)
