"""Every rank comes to the same barrier from a line of its own."""
# ranks: 4

from mpi4py import MPI

comm = MPI.COMM_WORLD
for step in range(50):
    if (comm.rank + step) % 2 == 0:
        comm.Barrier()
    else:
        comm.Barrier()
total = comm.allreduce(1) if comm.rank == 0 else comm.allreduce(2)
print("rank", comm.rank, total)
