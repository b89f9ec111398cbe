"""Each rank sets the file to the size that it needs itself."""
# ranks: 3
# finding: mismatch count
# out of line: 0 1 2

from mpi4py import MPI

comm = MPI.COMM_WORLD
file = MPI.File.Open(comm, "space.bin", MPI.MODE_CREATE | MPI.MODE_RDWR)
file.Set_size(1024 * (comm.rank + 1))  # <- here # fixed: file.Set_size(1024 * comm.size)
file.Close()
