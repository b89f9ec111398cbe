"""Buffers are shared by requests in every way that is allowed."""
# ranks: 3

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
left, right = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
field = np.zeros((6, 6))
whole = np.arange(40.0)

for step in range(5):
    # two that only read
    sends = [comm.Isend(whole, dest=right, tag=1), comm.Isend(whole[:20], dest=left, tag=2)]
    parts = np.empty((2, 40))
    receives = [comm.Irecv(parts[0], source=left, tag=1), comm.Irecv(parts[1, :20], source=right, tag=2)]
    comm.Allreduce(MPI.IN_PLACE, field)
    MPI.Request.Waitall(sends + receives)
    whole += 1.0

    # neighbours that touch and do not overlap
    requests = [comm.Isend(whole[0:10], dest=right), comm.Irecv(whole[10:20], source=left)]
    comm.Send(np.ones(1), dest=right, tag=9)
    comm.Recv(np.ones(1), source=left, tag=9)
    while not MPI.Request.Testall(requests):
        pass
    whole[:20] = step

    # columns lie between each other
    column = MPI.DOUBLE.Create_vector(6, 1, 6).Commit()
    requests = [
        comm.Isend([field, 1, column], dest=right),
        comm.Irecv([field.ravel()[1:], 1, column], source=left),
    ]
    MPI.Request.Waitall(requests)
    column.Free()

    # nobody sends, and nobody receives
    nobody = [comm.Irecv(whole, source=MPI.PROC_NULL), comm.Irecv(whole, source=MPI.PROC_NULL)]
    nobody.append(comm.Isend(whole, dest=MPI.PROC_NULL))
    whole[:] = 2.0 * step
    MPI.Request.Waitall(nobody)

    # nothing is written to what holds nothing
    nothing = np.empty(0)
    requests = [comm.Irecv(nothing, source=left), comm.Irecv(nothing, source=left)]
    requests += [comm.Isend(nothing, dest=right), comm.Isend(whole[:0], dest=right)]
    MPI.Request.Waitall(requests)

    # the root reads, the others write; the roots' parts are their own
    request = comm.Ibcast(whole, root=0)
    if comm.rank == 0:
        comm.Send(whole, dest=1, tag=5)
    request.Wait()
    if comm.rank == 1:
        comm.Recv(np.empty(40), source=0, tag=5)
    unused = np.empty((comm.size, 2))
    request = comm.Igather(whole[:2], unused, root=1)
    if comm.rank != 1:
        unused[:] = 0.0  # it means nothing here
        comm.Isend(unused[0], dest=right, tag=6).Wait()
    request.Wait()
    for rank in range(comm.size):
        if rank != 1 and (rank + 1) % comm.size == comm.rank:
            comm.Recv(np.empty(2), source=rank, tag=6)

    # known to be complete before it is waited for
    request = comm.Isend(whole, dest=right)
    comm.Recv(parts[0], source=left)
    while not request.Get_status():
        pass
    whole[0] = 7.0
    request.Wait()

# persistent ones, filled between the steps
mine, theirs = np.zeros(3000), np.zeros(3000)
pair = [comm.Send_init(mine, dest=right), comm.Recv_init(theirs, source=left)]
for step in range(4):
    mine[:] = step
    MPI.Prequest.Startall(pair)
    MPI.Request.Waitall(pair)
    mine += theirs
    comm.Allreduce(MPI.IN_PLACE, theirs)
for request in pair:
    request.Free()

# a receive that is given up, and its buffer used again
request = comm.Irecv(mine, source=left, tag=77)
request.Cancel()
request.Wait()
comm.Bcast(mine)
numbers = bytearray(64)
requests = [comm.Isend(bytes(64), dest=right), comm.Irecv(numbers, source=left)]
MPI.Request.Waitall(requests)
numbers.extend(b"more")  # nobody holds it any more
