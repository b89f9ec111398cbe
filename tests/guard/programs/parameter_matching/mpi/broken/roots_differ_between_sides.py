"""The upper half takes rank 1 of the lower half for the root, but rank 0 is it."""
# ranks: 5
# finding: mismatch root
# out of line: 0
# cause: root

from mpi4py import MPI

comm = MPI.COMM_WORLD
low = comm.rank < 2
half = comm.Split(color=int(low), key=comm.rank)
between = half.Create_intercomm(0, comm, 2 if low else 0, tag=3)
root_of_others = 1  # fixed: root_of_others = 0
if low:
    word = between.bcast("word", root=MPI.ROOT if half.rank == 0 else MPI.PROC_NULL)  # <- here
else:
    word = between.bcast(None, root=root_of_others)  # <- here
between.Barrier()
print("rank", comm.rank, word)
