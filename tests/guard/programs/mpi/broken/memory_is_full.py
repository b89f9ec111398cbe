"""Rank 1 asks for more memory than there is."""

from mpi4py import MPI

comm = MPI.COMM_WORLD
comm.Barrier()
cache = bytearray(1 << 60) if comm.rank == 1 else b""  # <- here
comm.Barrier()
print("rank", comm.rank, len(cache))
