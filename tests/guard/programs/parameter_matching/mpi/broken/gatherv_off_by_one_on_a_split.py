"""Two halves of the job gather their own results; in one of them a member sends one more than its leader takes."""
# ranks: 4
# finding: mismatch count
# out of line: 2 3
# cause: splits
# says: rank 3 sends 3 elements to rank 2

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
half = world.Split(world.rank // 2, world.rank)
mine = np.ones(3 if world.rank == 3 else 2)  # fixed: mine = np.ones(2)
if half.rank == 0:
    found = np.zeros(4)
    half.Gatherv(mine, [found, [2, 2]], root=0)  # <- here
else:
    half.Gatherv(mine, None, root=0)  # <- here
print("rank", world.rank, half.rank)
