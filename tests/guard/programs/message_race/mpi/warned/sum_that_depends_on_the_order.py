"""Contributions are added as they come: a sum of floats depends on the order."""
# ranks: 4
# options: --strict=message-race
# warning: message-race
# warned ranks: 0

from mpi4py import MPI

comm = MPI.COMM_WORLD
others = range(1, comm.size)
if comm.rank:
    comm.send(0.1 * comm.rank, dest=0, tag=5)
comm.Barrier()
if comm.rank == 0:
    parts = (comm.recv(tag=5) for _ in others)  # <- here  # fixed: parts = (comm.recv(None, one, 5) for one in others)
    print(sum(parts))
