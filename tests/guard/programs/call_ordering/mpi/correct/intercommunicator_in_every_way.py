"""Two sides of different sizes use their intercommunicator in every way: collectives, messages, copies, parts."""
# ranks: 5

import time

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
low = comm.rank < 2
half = comm.Split(color=int(low), key=comm.rank)
between = half.Create_intercomm(0, comm, 2 if low else 0, tag=3)
again = half.Create_intercomm(half.size - 1, comm, 4 if low else 1, tag=3)
MINE, NOBODY = MPI.ROOT, MPI.PROC_NULL


def root_here(member):
    return MINE if half.rank == member else NOBODY


for bridge in (between, again, between.Dup(), between.Clone()):
    bridge.Barrier()
    bridge.Ibarrier().Wait()
    numbers = np.full(3, comm.rank, dtype="i8")
    if low:
        bridge.Bcast(numbers, root=root_here(1))
        told = bridge.gather("from below", root=2)
        parts = bridge.scatter([comm.rank] * 3 if half.rank == 0 else None, root=root_here(0))
        total = bridge.reduce(comm.rank, op=MPI.MAX, root=root_here(0))
    else:
        if half.rank == 1:
            time.sleep(0.3)
        bridge.Bcast(numbers, root=1)
        told = bridge.gather(None, root=root_here(2))
        parts = bridge.scatter(None, root=0)
        total = bridge.reduce(comm.rank, op=MPI.MAX, root=0)
    everything = np.zeros(bridge.remote_size * (1 if low else 2), dtype="i8")
    bridge.Allgather(np.full(2 if low else 1, comm.rank, dtype="i8"), everything)
    sums = np.zeros(3)
    bridge.Allreduce(np.ones(3), sums)
    print(comm.rank, numbers, told, parts, total, everything, sums, bridge.alltoall(list(range(bridge.remote_size))))

# messages: from any, with any tag, at once, posted, persistent, in exchange
if half.rank == 0:
    status = MPI.Status()
    print(comm.rank, between.sendrecv(comm.rank, dest=0, source=0), between.remote_size)
    between.isend("posted", dest=between.remote_size - 1, tag=7).wait()
    buffer = np.zeros(2)
    request = between.Recv_init(buffer, source=MPI.ANY_SOURCE, tag=9)
    for _ in range(2):
        request.Start()
        request.Wait()
    request.Free()
    print(comm.rank, buffer)
elif half.rank == half.size - 1:
    print(comm.rank, between.recv(source=MPI.ANY_SOURCE, tag=MPI.ANY_TAG))
    between.Send(np.full(2, 1.0), dest=0, tag=9)
    between.Isend(np.full(2, 2.0), dest=0, tag=9).Wait()
between.Barrier()

# pairs across, made by single ranks; parts of both sides; and all of them as one
if half.rank < 2:
    pair = MPI.COMM_SELF.Create_intercomm(0, comm, comm.rank + 2 if low else comm.rank - 2, tag=11)
    print(comm.rank, pair.sendrecv(comm.rank, dest=0, source=0))
    pair.Barrier()
    pair.Free()
part = between.Split(color=half.rank % 2, key=half.rank)
print(comm.rank, part.remote_size, part.allgather(comm.rank))
merged = part.Merge(high=not low)
print(comm.rank, merged.allgather(comm.rank))
between.Merge(high=not low).Barrier()
part.Free()
between.Disconnect()
