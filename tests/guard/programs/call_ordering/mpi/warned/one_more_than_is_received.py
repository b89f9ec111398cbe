"""Rank 1 sends a last message after its neighbour has stopped to listen."""
# ranks: 2
# warning: message-never-received
# warned ranks: 1
# says: tag 7

from mpi4py import MPI

comm = MPI.COMM_WORLD
if comm.rank == 1:
    for step in range(5):
        comm.send(step, dest=0, tag=7)  # <- here
else:
    got = [comm.recv(source=1, tag=7) for _ in range(4)]  # fixed: got = [comm.recv(source=1, tag=7) for _ in range(5)]
