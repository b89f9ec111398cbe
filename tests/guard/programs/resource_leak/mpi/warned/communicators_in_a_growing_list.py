"""A cache of communicators is never emptied."""
# ranks: 2
# warning: handle-leak
# warned ranks: 0 1
# says: not freed

from mpi4py import MPI

comm = MPI.COMM_WORLD
cache = []
for _ in range(600):
    cache.append(comm.Dup())  # <- here # fixed: cache.append(comm)
comm.Barrier()
