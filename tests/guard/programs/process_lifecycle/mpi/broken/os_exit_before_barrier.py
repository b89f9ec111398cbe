"""Rank 1 leaves without a word."""
# ranks: 2
# finding: peer-gone
# out of line: 1
# cause: early-exit
# ranks: 4

import os

from mpi4py import MPI

comm = MPI.COMM_WORLD
comm.Barrier()
if comm.rank == 1:
    os._exit(0)  # <- here  # fixed: pass
comm.Barrier()  # <- here
print("rank", comm.rank, "done")
