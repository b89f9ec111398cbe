"""Communicators of sessions and of Idup, an exchange that is only posted, and messages in parts, several times each."""
# ranks: 3

import time

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
session = MPI.Session.Init()
everybody = session.Create_group("mpi://WORLD")
for _ in range(2):
    comm = MPI.Intracomm.Create_from_group(everybody, "example.comm")
    time.sleep(0.1 * comm.rank)
    comm.Barrier()
    copy, request = comm.Idup()
    request.Wait()
    right, left = (copy.rank + 1) % copy.size, (copy.rank - 1) % copy.size
    given, taken = np.full(4, float(copy.rank)), np.empty(4)
    copy.Isendrecv(given, right, 0, taken, left, 0).Wait()
    print(copy.rank, taken.tolist())
    copy.Isendrecv_replace(given, right, 1, MPI.ANY_SOURCE, 1).Wait()
    copy.Free()
    comm.Free()
first = everybody.Incl([0])
others = everybody.Excl([0])
mine, theirs = (first, others) if world.rank == 0 else (others, first)
between = MPI.Intercomm.Create_from_groups(mine, 0, theirs, 0, "example.sides")
print(world.rank, between.allgather(world.rank))
between.Free()
send, receive = world.Psend_init(given, 2, right, 5), world.Precv_init(taken, 2, left, 5)
for step in range(3):
    receive.Start()
    send.Start()
    for part in range(2):
        given[2 * part : 2 * part + 2] = step
        send.Pready(part)
    MPI.Request.Waitall([send, receive])
    print(world.rank, taken.tolist())
send.Free()
receive.Free()
for group in (first, others, everybody):
    group.Free()
session.Finalize()
world.Barrier()
