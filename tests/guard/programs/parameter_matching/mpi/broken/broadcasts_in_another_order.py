"""Arrays of different sizes are broadcast in a loop over their names; one rank has the names in another order."""
# ranks: 3
# finding: mismatch count
# out of line: 2
# cause: call-order

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
arrays = {"weight": np.zeros(12), "bias": np.zeros(3), "scale": np.zeros(5), "shift": np.zeros(7)}
names = list(arrays)
if comm.rank == 2:
    names[1], names[2] = names[2], names[1]  # fixed: pass
for name in names:
    comm.Bcast(arrays[name], root=0)  # <- here
print("rank", comm.rank, "has all")
