"""Two duplicates of the world, used in the other order by rank 0."""
# ranks: 4
# finding: deadlock communicator
# out of line: 0
# cause: call-order

from mpi4py import MPI

comm = MPI.COMM_WORLD
data, control = comm.Dup(), comm.Dup()
first, second = (data, control) if comm.rank == 0 else (control, data)  # fixed: first, second = control, data
first.Barrier()  # <- here
second.Barrier()
print("rank", comm.rank, "done")
