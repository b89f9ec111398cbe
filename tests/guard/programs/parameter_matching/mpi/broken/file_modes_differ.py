"""Rank 0 opens the file to write, the others to read."""
# ranks: 3
# finding: mismatch mode
# out of line: 0
# cause: mode

from mpi4py import MPI

comm = MPI.COMM_WORLD
mode = MPI.MODE_CREATE | MPI.MODE_RDWR
if comm.rank > 0:  # fixed: if comm.rank < 0:
    mode = MPI.MODE_RDONLY
file = MPI.File.Open(comm, "data.bin", mode)  # <- here
file.Close()
