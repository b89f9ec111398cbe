"""Rank 0 reads its settings from the standard input."""
# ranks: 4

import sys

from mpi4py import MPI

comm = MPI.COMM_WORLD
lines = [sys.stdin.readline().split() for _ in range(2)] if comm.rank == 0 else None
lines = comm.bcast(lines, root=0)
print("rank", comm.rank, lines)
