"""Only one half of the job has the race, on a communicator of its own."""
# ranks: 6
# options: --strict=message-race
# warning: message-race
# warned ranks: 3

from mpi4py import MPI

comm = MPI.COMM_WORLD
half = comm.Split(color=comm.rank // 3, key=comm.rank)
if half.rank:
    half.send(comm.rank, dest=0)
half.Barrier()
if half.rank == 0:
    anybody = MPI.ANY_SOURCE
    for source in (1, 2):
        if comm.rank == 0:
            half.recv(source=source)
        else:
            half.recv(source=anybody)  # <- here  # fixed: half.recv(source=source)
half.Free()
