"""Rank 0 looks which message is there and receives that one first: the order is that of arrival."""
# ranks: 3
# not found: probes are left out, because programs use them to ask who has sent

from mpi4py import MPI

comm = MPI.COMM_WORLD
sources = (MPI.ANY_SOURCE, MPI.ANY_SOURCE)  # fixed: sources = (1, 2)
if comm.rank:
    comm.send(comm.rank, dest=0)
comm.Barrier()
if comm.rank == 0:
    status = MPI.Status()
    for source in sources:
        comm.Probe(source=source, status=status)  # <- here
        print("took", comm.recv(source=status.Get_source()))
