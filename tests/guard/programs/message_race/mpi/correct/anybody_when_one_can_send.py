"""Receives from anybody that only one message can meet: each rank sends when it is its turn."""
# ranks: 4

from mpi4py import MPI

comm = MPI.COMM_WORLD
for turn in range(1, comm.size):
    if comm.rank == turn:
        comm.send(turn, dest=0)
    if comm.rank == 0:
        print("got", comm.recv(source=MPI.ANY_SOURCE))
    comm.Barrier()
