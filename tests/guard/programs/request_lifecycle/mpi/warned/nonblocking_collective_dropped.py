"""A non-blocking sum is started and its request dropped."""
# ranks: 2
# warning: request-never-completed
# warned ranks: 0 1
# says: Iallreduce

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
mine, total = np.ones(3), np.empty(3)


def sum_up():
    comm.Iallreduce(mine, total)  # <- here # fixed: comm.Iallreduce(mine, total).Wait()


sum_up()
comm.Barrier()
