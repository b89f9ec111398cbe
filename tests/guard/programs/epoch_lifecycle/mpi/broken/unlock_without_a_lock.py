"""Rank 1 releases a lock that it does not have."""
# ranks: 2
# finding: peer-gone
# out of line: 1
# cause: exception

from mpi4py import MPI

comm = MPI.COMM_WORLD
window = MPI.Win.Allocate(8, 8, comm=comm)
if comm.rank == 1:
    # fixed: window.Lock(0)
    window.Unlock(0)  # <- here
comm.Barrier()
window.Free()
