"""Two windows: rank 0 fences them in another order than the others."""
# ranks: 3
# finding: deadlock communicator
# out of line: 0
# cause: call-order

from mpi4py import MPI

comm = MPI.COMM_WORLD
first = MPI.Win.Allocate(8, 8, comm=comm)
second = MPI.Win.Allocate(8, 8, comm=comm)
if comm.rank == 0:  # fixed: if comm.rank < 0:
    second.Fence()  # <- here
    first.Fence()
else:
    first.Fence()  # <- here
    second.Fence()
second.Free()
first.Free()
