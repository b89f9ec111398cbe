"""Collective, ordered, split and non-blocking reads and writes of parts that differ in size, views and sizes."""
# ranks: 3

import time

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
file = MPI.File.Open(comm, "data.bin", MPI.MODE_CREATE | MPI.MODE_RDWR)
file.Set_size(0)
file.Preallocate(1024)
file.atomicity = False
part = np.full(comm.rank, comm.rank, dtype="f8")  # rank 0 has nothing
file.Write_at_all(64 * comm.rank, part)
if comm.rank == 1:
    time.sleep(0.6)
file.Set_view(0, MPI.DOUBLE, MPI.DOUBLE)
file.Write_all(part)
file.Seek(0)
file.Write_at_all_begin(8 * comm.rank, part)
file.Write_at_all_end(part)
file.Iwrite_at_all(8 * comm.rank, part).Wait()
MPI.Request.Waitall([file.Iwrite_at(8 * comm.rank, part), file.Iread_at_all(0, np.zeros(2))])
file.Sync()
file.Set_view(8 * comm.rank, MPI.BYTE)
file.Seek_shared(0)
if comm.rank == 2:
    file.Write_shared(b"only rank 2")
comm.Barrier()
file.Seek_shared(0)
file.Write_ordered(bytes(comm.rank))
file.Seek_shared(0)
line = bytearray(comm.rank)
file.Read_ordered(line)
file.Seek(0)
file.Read_all_begin(line)
file.Read_all_end(line)
everything = np.zeros(2)
file.Read_at_all(offset=0, buf=everything)
file.Close()
if comm.rank == 0:
    own = MPI.File.Open(MPI.COMM_SELF, "own.bin", MPI.MODE_CREATE | MPI.MODE_WRONLY)
    own.Write_all(b"alone")
    own.Close()
print("rank", comm.rank, len(line))
