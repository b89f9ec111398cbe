"""The root is the number of ranks: one too many, on every rank."""
# ranks: 4
# finding: argument root

from mpi4py import MPI

comm = MPI.COMM_WORLD
comm.Barrier()
settings = {"lr": 0.1} if comm.rank == comm.size - 1 else None
settings = comm.bcast(settings, root=comm.size)  # <- here  # fixed: settings = comm.bcast(settings, root=comm.size - 1)
print("rank", comm.rank, settings)
