"""All bring six gradients; one rank has the larger part on another rank than the others have."""
# ranks: 3
# finding: mismatch count
# out of line: 2
# cause: splits
# says: brings

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
parts = [3, 2, 1] if comm.rank == 2 else [1, 2, 3]  # fixed: parts = [1, 2, 3]
mine = np.zeros(parts[comm.rank])
comm.Reduce_scatter(np.arange(6.0), mine, parts)  # <- here
print("rank", comm.rank, mine.tolist())
