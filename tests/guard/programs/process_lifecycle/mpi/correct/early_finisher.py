"""The last rank is done after the last collective; the others still exchange messages."""
# ranks: 3

import time

from mpi4py import MPI

comm = MPI.COMM_WORLD
comm.Barrier()
if comm.rank == 0:
    time.sleep(0.6)
    for step in range(5):
        comm.send(step, dest=1, tag=step)
elif comm.rank == 1:
    print("got", [comm.recv(source=0, tag=step) for step in range(5)])
print("rank", comm.rank, "done")
