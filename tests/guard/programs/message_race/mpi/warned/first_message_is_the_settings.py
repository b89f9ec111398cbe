"""Rank 0 takes the first message for that of rank 1; nothing makes it come first."""
# ranks: 3
# options: --strict=message-race
# warning: message-race
# warned ranks: 0
# says: took whichever came first

from mpi4py import MPI

comm = MPI.COMM_WORLD
if comm.rank:
    comm.send({"rank": comm.rank}, dest=0)
comm.Barrier()
if comm.rank == 0:
    settings = comm.recv()  # <- here  # fixed: settings = comm.recv(source=1)
    other = comm.recv(source=3 - settings["rank"])
    print(settings, other)
