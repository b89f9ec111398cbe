"""The last rank sleeps; the others wait for it."""
# ranks: 3

import time

from mpi4py import MPI

comm = MPI.COMM_WORLD
if comm.rank == comm.size - 1:
    time.sleep(1.5)
comm.Barrier()
print("rank", comm.rank, comm.allreduce(1))
