"""Rank 1 raises between two fences, and the others wait in the second."""
# ranks: 3
# finding: peer-gone
# out of line: 1
# cause: exception

from mpi4py import MPI

comm = MPI.COMM_WORLD
window = MPI.Win.Allocate(8, 8, comm=comm)
window.Fence()
values = {0: 1.0, 2: 3.0}  # fixed: values = {0: 1.0, 1: 2.0, 2: 3.0}
value = values[comm.rank]  # <- here
window.Fence()
window.Free()
