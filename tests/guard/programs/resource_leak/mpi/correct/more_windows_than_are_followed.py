"""More windows and files at one time than are followed; then messages and collectives as ever."""
# ranks: 2

import time

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
windows = [MPI.Win.Allocate(8, 8, comm=comm) for _ in range(66)]
for window in windows:
    window.Fence()
if comm.rank == 0:
    time.sleep(0.6)
    comm.send("late", dest=1)
else:
    comm.recv(source=0)
for window in reversed(windows):
    window.Fence()
    window.Free()
for number in range(30):
    file = MPI.File.Open(comm, f"file{number % 3}.bin", MPI.MODE_CREATE | MPI.MODE_RDWR)
    file.Write_at_all(8 * comm.rank, np.ones(1))
    file.Close()
print("rank", comm.rank, comm.allreduce(1))
