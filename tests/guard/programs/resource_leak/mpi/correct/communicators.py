"""Communicators of every kind, used and freed."""
# ranks: 4

from mpi4py import MPI

comm = MPI.COMM_WORLD
copy = comm.Dup()
later, request = comm.Idup()
request.Wait()
parity = comm.Split(color=comm.rank % 2, key=-comm.rank)
some = comm.Split(color=0 if comm.rank else MPI.UNDEFINED)
node = comm.Split_type(MPI.COMM_TYPE_SHARED)
group = comm.Get_group().Incl(range(1, comm.size))
created = comm.Create(group)
alone = comm.Create_group(comm.Get_group().Incl([0, comm.size - 1])) if comm.rank in (0, comm.size - 1) else None
grid = comm.Create_cart([comm.size], periods=[True])
inner = parity.Dup()
for one in (copy, later, parity, some, node, created, alone, grid, inner):
    if one is not None and one != MPI.COMM_NULL:
        one.Barrier()
        print("rank", comm.rank, one.allreduce(comm.rank), one.bcast(comm.rank, root=0))
source, dest = grid.Shift(0, 1)
print("rank", comm.rank, grid.sendrecv(comm.rank, dest=dest, source=source))
for one in (inner, grid, copy, later, parity):
    one.Free()
comm.Barrier()
