"""Rank 2 frees the window while the others still have a fence to make."""
# ranks: 3
# finding: mismatch operation
# out of line: 2
# cause: rank-conditional-call | skipped-call

from mpi4py import MPI

comm = MPI.COMM_WORLD
window = MPI.Win.Allocate(8, 8, comm=comm)
window.Fence()
if comm.rank != 2:  # fixed: if True:
    window.Fence()  # <- here
window.Free()
