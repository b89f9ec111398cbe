"""The last rank reduces to itself, the others to rank 0."""
# ranks: 3
# finding: mismatch root
# out of line: 2
# cause: root

from mpi4py import MPI

comm = MPI.COMM_WORLD
comm.Barrier()
writer = comm.rank if comm.rank == comm.size - 1 else 0  # fixed: writer = 0
for epoch in range(3):
    loss = comm.reduce(1.0 / (epoch + 1), op=MPI.SUM, root=writer)  # <- here
    if comm.rank == writer:
        print("epoch", epoch, "loss", loss)
