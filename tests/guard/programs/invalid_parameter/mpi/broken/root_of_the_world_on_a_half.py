"""A half of the job reduces to rank 3, which is a number of the world: the half has ranks 0 and 1 only."""
# ranks: 4
# finding: argument root
# out of line: 2 | 3 | 2 3
# cause: no-such-rank

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
half = comm.Split(color=comm.rank // 2, key=comm.rank)
root = 0 if comm.rank < 2 else 3  # fixed: root = 0 if comm.rank < 2 else 1
total = np.zeros(1)
half.Reduce(np.ones(1), total, root=root)  # <- here
half.Free()
comm.Barrier()
