"""Rank 2 is slower than rank 1, so that its message always comes second, on this machine."""
# ranks: 3
# not found: the two messages were never under way at the same time, so a race is not certain

import time

from mpi4py import MPI

comm = MPI.COMM_WORLD
if comm.rank == 2:
    time.sleep(0.5)
if comm.rank:
    comm.send(comm.rank, dest=0)
else:
    print(comm.recv(), comm.recv())  # <- here  # fixed: print(comm.recv(source=1), comm.recv(source=2))
