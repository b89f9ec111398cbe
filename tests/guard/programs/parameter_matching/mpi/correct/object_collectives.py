"""Every collective on Python objects; sizes differ from rank to rank."""
# ranks: 4

from mpi4py import MPI

comm = MPI.COMM_WORLD
size, rank = comm.size, comm.rank
mine = list(range(rank * 100))
for root in range(size):
    comm.barrier()
    got = [
        len(comm.bcast(mine, root=root)),
        len(comm.gather(mine, root=root) or ()),
        comm.scatter([number * 2 for number in range(size)] if rank == root else None, root=root),
        sum(map(len, comm.allgather(mine))),
        comm.alltoall([rank] * size),
        comm.reduce(rank, op=MPI.SUM, root=root),
        comm.allreduce(rank, op=MPI.MAX),
        comm.allreduce({rank}, op=lambda a, b: a | b),
        comm.scan(rank),
        comm.exscan(rank),
    ]
    print("rank", rank, got)
