"""In place, a rank sends as much as it gets; ranks 0 and 1 do not agree on how much that is."""
# ranks: 3
# finding: mismatch count
# out of line: 0 1
# cause: splits

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
counts = [1] * comm.size
if comm.rank == 1:
    counts[0] = 2  # fixed: counts[0] = 1
data = np.full(sum(counts), comm.rank, dtype="i8")
comm.Alltoallv(MPI.IN_PLACE, [data, counts])  # <- here
print("rank", comm.rank, data.tolist())
