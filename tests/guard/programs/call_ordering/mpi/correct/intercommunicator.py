"""Two halves talk over an intercommunicator, then become one."""
# ranks: 4

import time

from mpi4py import MPI

comm = MPI.COMM_WORLD
low = comm.rank < comm.size // 2
half = comm.Split(color=int(low), key=comm.rank)
between = half.Create_intercomm(0, comm, comm.size // 2 if low else 0, tag=3)
if half.rank == 0:
    if low:
        time.sleep(0.7)
        between.send("hello", dest=0, tag=1)
    else:
        print(between.recv(source=0, tag=1))
print("rank", comm.rank, between.allgather(comm.rank))
merged = between.Merge(high=not low)
print("rank", comm.rank, merged.allreduce(1))
merged.Barrier()
between.Free()
