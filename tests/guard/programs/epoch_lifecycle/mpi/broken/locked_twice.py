"""Rank 1 takes a lock that it has already."""
# ranks: 2
# finding: peer-gone
# out of line: 1
# cause: exception

from mpi4py import MPI

comm = MPI.COMM_WORLD
window = MPI.Win.Allocate(8, 8, comm=comm)
if comm.rank == 1:
    window.Lock(0)
    window.Lock(0)  # <- here  # fixed: window.Flush(0)
    window.Unlock(0)
comm.Barrier()
window.Free()
