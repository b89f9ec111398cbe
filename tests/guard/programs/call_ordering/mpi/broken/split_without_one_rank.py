"""The last rank thinks that it needs no group, and goes on to the barrier."""
# ranks: 3
# finding: mismatch operation
# out of line: 2
# cause: rank-conditional-call

from mpi4py import MPI

comm = MPI.COMM_WORLD
comm.Barrier()
group = MPI.COMM_NULL
if comm.rank != comm.size - 1:  # fixed: if True:
    group = comm.Split(color=0, key=comm.rank)  # <- here
comm.Barrier()  # <- here
print("rank", comm.rank, group != MPI.COMM_NULL)
