"""A communicator is made in every step and never freed."""
# ranks: 2
# warning: handle-leak
# warned ranks: 0 1
# says: communicators made at

from mpi4py import MPI

comm = MPI.COMM_WORLD
for step in range(150):
    part = comm.Split(color=0, key=comm.rank)  # <- here
    part.allreduce(step)
    # fixed: part.Free()
