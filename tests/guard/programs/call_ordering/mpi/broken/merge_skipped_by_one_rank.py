"""One rank does not merge the two sides."""
# ranks: 4
# finding: deadlock | deadlock communicator
# out of line: 1
# cause: skipped-call | rank-conditional-call

from mpi4py import MPI

comm = MPI.COMM_WORLD
low = comm.rank < comm.size // 2
half = comm.Split(color=int(low), key=comm.rank)
between = half.Create_intercomm(0, comm, comm.size // 2 if low else 0, tag=3)
if comm.rank != 1:  # fixed: if True:
    between.Merge(high=not low)  # <- here
comm.Barrier()
print("rank", comm.rank)
