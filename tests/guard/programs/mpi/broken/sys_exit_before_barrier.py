"""Rank 1 has nothing to do and leaves, quite politely."""

import sys

from mpi4py import MPI

comm = MPI.COMM_WORLD
comm.Barrier()
if comm.rank == 1:
    sys.exit(0)  # <- here
comm.Barrier()  # <- here
print("rank", comm.rank, "done")
