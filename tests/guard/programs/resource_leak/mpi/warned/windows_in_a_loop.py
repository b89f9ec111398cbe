"""A window is made for each exchange and never freed."""
# ranks: 2
# warning: handle-leak
# warned ranks: 0 1
# says: windows

from mpi4py import MPI

comm = MPI.COMM_WORLD
for _ in range(90):
    window = MPI.Win.Create(None, comm=comm)  # <- here
    # fixed: window.Free()
comm.Barrier()
