"""Rank 1 completes an epoch that it has not started; rank 0 waits for it."""
# ranks: 2
# finding: peer-gone
# out of line: 1
# cause: exception

from mpi4py import MPI

comm = MPI.COMM_WORLD
window = MPI.Win.Allocate(8, 8, comm=comm)
world = comm.Get_group()
other = world.Incl([1 - comm.rank])
if comm.rank == 0:
    window.Post(other)
    window.Wait()
else:
    # fixed: window.Start(other)
    window.Complete()  # <- here
comm.Barrier()
window.Free()
