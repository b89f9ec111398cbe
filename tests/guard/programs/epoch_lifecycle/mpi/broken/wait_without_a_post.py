"""Rank 0 waits for an epoch of its window that it has never opened."""
# ranks: 2
# finding: peer-gone
# out of line: 0
# cause: exception

from mpi4py import MPI

comm = MPI.COMM_WORLD
window = MPI.Win.Allocate(8, 8, comm=comm)
world = comm.Get_group()
other = world.Incl([1 - comm.rank])
if comm.rank == 0:
    # fixed: window.Post(other)
    window.Wait()  # <- here
# fixed: else:
# fixed:     window.Start(other); window.Complete()
comm.Barrier()
window.Free()
