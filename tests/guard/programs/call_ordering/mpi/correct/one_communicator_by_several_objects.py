"""One communicator that is reached by several objects, as C libraries hand it out, each rank using another one."""
# ranks: 3

import time

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
half = world.Split(0, world.rank)
for comm in (world, half):
    objects = [comm, MPI.Comm.f2py(comm.py2f()), MPI.Intracomm(comm), MPI.Comm.fromhandle(comm.handle), MPI.Comm(comm)]
    for step in range(10):
        objects[(comm.rank + step) % len(objects)].Barrier()
    mine = objects[comm.rank]
    after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    box = np.zeros(1)
    request = mine.Irecv(box, source=before, tag=3)
    objects[-1].Send(np.array([float(comm.rank)]), dest=after, tag=3)
    request.Wait()
    if comm.rank == 2:
        time.sleep(0.5)
    print(comm.rank, box[0], mine.allreduce(1), comm == mine, comm is mine)
again = MPI.Comm.fromhandle(half.handle)
again.Free()
other = world.Dup()  # it may get the handle that was just freed
other.Barrier()
print(other.allreduce(world.rank), other.bcast("x" if other.rank == 1 else None, root=1))
other.Free()
