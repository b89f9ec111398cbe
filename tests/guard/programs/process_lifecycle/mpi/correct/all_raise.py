"""All ranks find the same mistake and raise."""
# ranks: 2

from mpi4py import MPI

comm = MPI.COMM_WORLD
missing = comm.bcast(["epochs"] if comm.rank == 0 else None, root=0)
comm.Barrier()
if missing:
    raise ValueError(f"settings are missing: {missing}")
