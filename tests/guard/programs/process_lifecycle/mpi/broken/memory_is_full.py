"""Rank 1 asks for more memory than there is."""
# ranks: 2
# finding: peer-gone
# out of line: 1
# cause: out-of-memory

from mpi4py import MPI

comm = MPI.COMM_WORLD
comm.Barrier()
cache = bytearray(1 << 60) if comm.rank == 1 else b""  # <- here  # fixed: cache = b""
comm.Barrier()
print("rank", comm.rank, len(cache))
