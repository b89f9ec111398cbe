"""A function splits the world, uses the part, and returns without freeing it."""
# ranks: 4
# warning: handle-leak
# warned ranks: 0 1 2 3
# says: communicators

from mpi4py import MPI

comm = MPI.COMM_WORLD


def mean_of_the_half(value):
    half = comm.Split(color=comm.rank % 2, key=comm.rank)  # <- here
    mean = half.allreduce(value) / half.size
    # fixed: half.Free()
    return mean


for step in range(100):
    mean_of_the_half(step)
