"""Rank 1 leaves without a word."""

import os

from mpi4py import MPI

comm = MPI.COMM_WORLD
comm.Barrier()
if comm.rank == 1:
    os._exit(0)  # <- here
comm.Barrier()  # <- here
print("rank", comm.rank, "done")
