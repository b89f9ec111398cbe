"""A reduction of the program's own takes the larger value, and on one rank the smaller."""
# ranks: 3
# options: --results
# warning: results-differ
# warned ranks: 0 1 2 | 0 | 1 | 2
# says: Allreduce at

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD


def larger(source, target, datatype):
    mine, theirs = np.frombuffer(source), np.frombuffer(target)
    choose = np.minimum if comm.rank == 1 else np.maximum  # fixed: choose = np.maximum
    theirs[:] = choose(mine, theirs)


operation = MPI.Op.Create(larger, commute=True)
result = np.empty(4)
for step in range(3):
    comm.Allreduce(np.full(4, float(comm.rank + step)), result, op=operation)  # <- here
operation.Free()
