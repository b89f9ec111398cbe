"""Rank 0 forgets to free the window and goes on to the barrier."""
# ranks: 3
# finding: deadlock
# out of line: 0
# cause: rank-conditional-call

from mpi4py import MPI

comm = MPI.COMM_WORLD
window = MPI.Win.Allocate(8, 8, comm=comm)
window.Fence()
window.Fence()
if comm.rank > 0:  # fixed: if True:
    window.Free()  # <- here
comm.Barrier()
