"""Rank 1 holds hundreds of communicators of its own, and rank 2 makes and frees thousands; then all use one more."""
# ranks: 3

import time

from mpi4py import MPI

comm = MPI.COMM_WORLD
me = comm.Get_group().Incl([comm.rank])
own = [comm.Create_group(me) for _ in range(300)] if comm.rank == 1 else []
early = comm.Dup()
early.Barrier()
if comm.rank == 2:
    for number in range(2500):
        made = comm.Create_group(me, tag=number % 100)
        made.Barrier()
        made.Free()
late = comm.Dup()
if comm.rank == 0:
    time.sleep(0.5)
late.reduce(comm.rank, root=0)
late.Barrier()
if comm.rank == 2:
    time.sleep(0.5)
early.Barrier()
print("rank", comm.rank)
