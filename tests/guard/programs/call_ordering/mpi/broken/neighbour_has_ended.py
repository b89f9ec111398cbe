"""A line of four: the last rank ends one exchange too early, and its neighbour waits for it."""
# ranks: 4
# finding: peer-gone
# out of line: 3
# cause: uneven-steps

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
line = comm.Create_cart([comm.size], periods=[False])
halo = np.zeros(2)
num_steps = 2 if comm.rank == 3 else 3  # fixed: num_steps = 3
for step in range(num_steps):
    line.Neighbor_alltoall(np.full(2, step, dtype="f8"), halo)  # <- here
