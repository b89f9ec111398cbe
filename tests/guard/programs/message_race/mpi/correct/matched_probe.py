"""Mprobe, Mrecv, Improbe and their lower-case kin."""
# ranks: 3

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
status = MPI.Status()
if comm.rank == 0:
    for _ in range(comm.size - 1):
        message = comm.Mprobe(source=MPI.ANY_SOURCE, tag=1, status=status)
        room = np.empty(status.Get_count(MPI.DOUBLE))
        message.Recv(room)
        print("got", len(room), "from", status.Get_source())
    for source in range(1, comm.size):
        print(comm.mprobe(source=source, tag=2).recv())
        while (found := comm.improbe(source=source, tag=3)) is None:
            pass
        print(found.recv())
        comm.Probe(source=source, tag=4, status=status)
        print(comm.recv(source=source, tag=4))
else:
    comm.Send(np.ones(comm.rank * 5), dest=0, tag=1)
    for tag in (2, 3, 4):
        comm.send((comm.rank, tag), dest=0, tag=tag)
comm.Barrier()
