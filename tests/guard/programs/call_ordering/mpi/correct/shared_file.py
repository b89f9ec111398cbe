"""MPI.File: all ranks write their part of one file and read it again."""
# ranks: 2

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
file = MPI.File.Open(comm, "shared.bin", MPI.MODE_CREATE | MPI.MODE_RDWR)
part = np.full(4, comm.rank, dtype="f8")
file.Write_at_all(comm.rank * 32, part)
file.Sync()
comm.Barrier()
everything = np.empty(4 * comm.size)
file.Read_at_all(0, everything)
file.Close()
print("rank", comm.rank, everything.sum())
