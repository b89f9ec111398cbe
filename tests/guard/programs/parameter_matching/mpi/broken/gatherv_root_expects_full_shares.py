"""The last rank has fewer predictions than the others, and the root forgets it."""
# ranks: 4
# finding: mismatch count
# out of line: 0 3
# cause: splits
# says: rank 3 sends 1 element to rank 0

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
num_samples = 10
share = -(-num_samples // comm.size)
mine = np.arange(comm.rank * share, min((comm.rank + 1) * share, num_samples), dtype="f8")
counts = [share] * comm.size  # fixed: counts = comm.gather(mine.size, root=0)
predictions = None
if comm.rank == 0:
    predictions = [np.full(sum(counts), -1.0), counts]
comm.Gatherv(mine, predictions, root=0)  # <- here
print("rank", comm.rank, predictions)
