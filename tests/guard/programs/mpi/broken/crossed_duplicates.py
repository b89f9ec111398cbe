"""Two duplicates of the world, used in the other order by rank 0."""

from mpi4py import MPI

comm = MPI.COMM_WORLD
data, control = comm.Dup(), comm.Dup()
first, second = (data, control) if comm.rank == 0 else (control, data)
first.Barrier()  # <- here
second.Barrier()
print("rank", comm.rank, "done")
