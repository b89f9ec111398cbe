"""Buffers in all the forms mpi4py takes: a count for one block, types with gaps, requests that are not active."""
# ranks: 3

import numpy
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
whole, part, room = numpy.arange(2.0 * size), numpy.zeros(2), numpy.zeros(2 * size)
comm.Scatter([whole, 2, MPI.DOUBLE] if rank == 0 else None, part, root=0)
comm.Allgather(MPI.IN_PLACE, [room, 2, MPI.DOUBLE])
comm.Alltoall([whole, 2, MPI.DOUBLE] if rank == 0 else whole, room)
middle = MPI.DOUBLE.Create_subarray([4], [2], [1]).Commit()
comm.Bcast([numpy.arange(4.0), middle] if rank == 0 else part)
if rank < 2:
    other, status = 1 - rank, MPI.Status()
    requests = [comm.Irecv(part, other, 1), comm.Isend(numpy.ones(2), other, 1)]
    MPI.Request.Waitany(requests, status=status)
    MPI.Request.Waitall(requests, statuses=[MPI.Status(), MPI.Status()])
persistent = comm.Recv_init(part, (rank - 1) % size, 3)
sent = comm.Isend(numpy.ones(2), (rank + 1) % size, 3)
persistent.Start()
persistent.Wait()
sent.Wait()
if rank == 0:
    last = comm.Irecv(part, 1, 9)
    MPI.Request.Waitall([persistent, last])  # the first is not active, so only the second is waited for
elif rank == 1:
    comm.Send(part, 0, 9)
persistent.Free()
print(f"{rank} {part}\n", end="", flush=True)
