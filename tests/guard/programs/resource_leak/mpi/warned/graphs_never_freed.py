"""A topology is made for each new mesh, and the communicator of the old one is forgotten."""
# ranks: 2
# warning: handle-leak
# warned ranks: 0 1
# says: communicators

from mpi4py import MPI

comm = MPI.COMM_WORLD
for _ in range(100):
    mesh = comm.Create_cart([comm.size], periods=[True])  # <- here
    mesh.neighbor_allgather(mesh.rank)
    # fixed: mesh.Free()
