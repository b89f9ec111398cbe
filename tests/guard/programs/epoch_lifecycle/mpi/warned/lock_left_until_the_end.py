"""A lock is taken and never given back; nobody else wants it, and the window is never freed."""
# ranks: 2
# warning: request-never-completed
# warned ranks: 0

from mpi4py import MPI

comm = MPI.COMM_WORLD
window = MPI.Win.Allocate(8, 8, comm=comm)
if comm.rank == 0:
    window.Lock(0)  # <- here
    # fixed: window.Unlock(0)
comm.Barrier()
# fixed: window.Free()
