"""A barrier under `if rank == 0`; the others come to the end of the script."""

from mpi4py import MPI

comm = MPI.COMM_WORLD
print("rank", comm.rank, "has finished", flush=True)
if comm.rank == 0:
    comm.Barrier()  # <- here
    print("all have finished")
