"""Rank 0 broadcasts its settings where the others hand theirs in; silent in both libraries."""
# ranks: 3
# finding: mismatch operation
# out of line: 0

from mpi4py import MPI

comm = MPI.COMM_WORLD
comm.Barrier()
settings = {"rank": comm.rank, "lr": 0.1}
if comm.rank == 0:  # fixed: if True:
    settings = comm.bcast(settings, root=0)  # <- here
else:
    everyone = comm.gather(settings, root=0)
print("rank", comm.rank, settings)
