"""One side sends to all of the other, which wants to reduce."""
# ranks: 4
# finding: mismatch operation
# out of line: 0 1 2 3

from mpi4py import MPI

comm = MPI.COMM_WORLD
low = comm.rank < comm.size // 2
half = comm.Split(color=int(low), key=comm.rank)
between = half.Create_intercomm(0, comm, comm.size // 2 if low else 0, tag=3)
if low:
    between.bcast(3, root=MPI.ROOT if half.rank == 0 else MPI.PROC_NULL)  # <- here
else:
    print(between.reduce(1, root=0))  # fixed: print(between.bcast(None, root=0))
between.Barrier()
print("rank", comm.rank)
