"""Rank 0 expects more from rank 2 than that one sends; libraries leave the rest of the buffer as it was."""
# ranks: 3
# finding: mismatch count
# out of line: 0 2
# cause: splits
# says: rank 2 sends 1 element to rank 0

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
sends = [1] * comm.size
expects = [1, 1, 3] if comm.rank == 0 else [1] * comm.size  # fixed: expects = [1] * comm.size
given, taken = np.full(sum(sends), comm.rank, dtype="i8"), np.full(sum(expects), -1)
request = comm.Ialltoallv([given, sends], [taken, expects])  # <- here
request.Wait()
print("rank", comm.rank, taken.tolist())
