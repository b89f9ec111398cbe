"""Rank 0 broadcasts its settings where the others hand theirs in; silent in both libraries."""

from mpi4py import MPI

comm = MPI.COMM_WORLD
comm.Barrier()
settings = {"rank": comm.rank, "lr": 0.1}
if comm.rank == 0:
    settings = comm.bcast(settings, root=0)  # <- here
else:
    everyone = comm.gather(settings, root=0)
print("rank", comm.rank, settings)
