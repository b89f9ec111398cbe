"""One rank leaves out a barrier of both sides."""
# ranks: 4
# finding: deadlock | deadlock communicator
# out of line: 3
# cause: skipped-call | rank-conditional-call

from mpi4py import MPI

comm = MPI.COMM_WORLD
low = comm.rank < comm.size // 2
half = comm.Split(color=int(low), key=comm.rank)
between = half.Create_intercomm(0, comm, comm.size // 2 if low else 0, tag=3)
if low:
    word = between.bcast("begin", root=MPI.ROOT if half.rank == 0 else MPI.PROC_NULL)
else:
    word = between.bcast(None, root=0)
if comm.rank != comm.size - 1:  # fixed: if True:
    between.Barrier()  # <- here
comm.Barrier()
print("rank", comm.rank, word)
