"""The root leaves the counts to be worked out from its buffer, which is large enough and not what ranks send."""
# ranks: 3
# finding: mismatch count
# out of line: 0
# cause: splits

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
mine = np.full(2, comm.rank, dtype="i4")
room = np.full(12, -1, dtype="i4") if comm.rank == 0 else None
everything = None if room is None else room  # fixed: everything = None if room is None else [room, [2] * comm.size]
comm.Igatherv([mine, MPI.INT], everything, root=0).Wait()  # <- here
print("rank", comm.rank, room)
