"""Rank 0 makes a barrier on the grid where the others exchange with their neighbours."""
# ranks: 4
# finding: mismatch operation
# out of line: 0

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
grid = comm.Create_cart([2, 2], periods=[True, True])
halo = np.zeros(4)
if grid.rank == 0:  # fixed: if grid.rank < 0:
    grid.Barrier()  # <- here
else:
    grid.Neighbor_alltoall(np.ones(4), halo)
grid.Free()
