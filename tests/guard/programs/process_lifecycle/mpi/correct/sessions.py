"""Ranks meet through a session beside the world: one of them comes late."""
# ranks: 3

import time

from mpi4py import MPI

world = MPI.COMM_WORLD
world.Barrier()
try:
    session = MPI.Session.Init()
except NotImplementedError:
    session = None  # an older MPI
if session is not None:
    group = session.Create_group("mpi://WORLD")
    if world.rank == 1:
        time.sleep(0.6)
    comm = MPI.Intracomm.Create_from_group(group, "a test")
    group.Free()
    print(world.rank, comm.allgather(world.rank))
    if comm.rank == 0:
        time.sleep(0.6)
        comm.send("late", dest=2)
    elif comm.rank == 2:
        print(comm.recv(source=0))
    comm.Free()
    session.Finalize()
world.Barrier()
