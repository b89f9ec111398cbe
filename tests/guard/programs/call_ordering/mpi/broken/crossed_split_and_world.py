"""Rank 1 meets its half first, the others meet the world first."""
# ranks: 4
# finding: deadlock communicator
# out of line: 1
# cause: call-order

from mpi4py import MPI

comm = MPI.COMM_WORLD
half = comm.Split(color=comm.rank // 2, key=comm.rank)
if comm.rank == 1:  # fixed: if False:
    half.allreduce(1)  # <- here
    comm.allreduce(1)
else:
    comm.allreduce(1)
    half.allreduce(1)
print("rank", comm.rank, "done")
