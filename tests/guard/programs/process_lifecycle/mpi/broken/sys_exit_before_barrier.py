"""Rank 1 has nothing to do and leaves, quite politely."""
# ranks: 3
# finding: peer-gone
# out of line: 1
# cause: early-exit

import sys

from mpi4py import MPI

comm = MPI.COMM_WORLD
comm.Barrier()
if comm.rank == 1:
    sys.exit(0)  # <- here  # fixed: pass
comm.Barrier()  # <- here
print("rank", comm.rank, "done")
