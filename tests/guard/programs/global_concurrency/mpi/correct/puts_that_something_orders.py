"""Ranks write to one place of a window in turn: ordered by barriers, messages, epochs, flushes and fences."""
# ranks: 3

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
window = MPI.Win.Allocate(16, 8, comm=comm)
memory = np.frombuffer(window.tomemory(), dtype="f8")
memory[:] = 0
value, seen = np.full(1, comm.rank, dtype="f8"), np.zeros(1)
comm.Barrier()
window.Lock_all()
for step in range(3):  # a barrier between them
    if comm.rank == step:
        window.Put(value, 0)
        window.Flush(0)
    comm.Barrier()
if comm.rank == 1:  # a message between them
    window.Put(value, 0)
    window.Flush(0)
    comm.send(None, dest=2)
elif comm.rank == 2:
    comm.recv(source=1)
    window.Put(value, 0)
    window.Flush(0)
comm.Barrier()
if comm.rank == 1:  # a flush between a put and a get of one rank; what a get has brought here is over
    window.Put(value, 0)
    window.Flush(0)
    window.Get(seen, 0)
    window.Flush_local(0)
    window.Put(value + seen, 0)
    window.Flush_all()
comm.Barrier()
window.Unlock_all()
window.Fence()
for step in range(3):  # a fence between them
    if comm.rank == step:
        window.Put(value, 0)
    window.Fence()
window.Fence(MPI.MODE_NOSUCCEED)
world = comm.Get_group()
for origin in (1, 2):  # an epoch for each
    if comm.rank == 0:
        with_origin = world.Incl([origin])
        window.Post(with_origin)
        window.Wait()
    elif comm.rank == origin:
        window.Start(world.Incl([0]))
        window.Put(value, 0)
        window.Complete()
comm.Barrier()
if comm.rank == 0:
    print("last", memory[0])
window.Free()
