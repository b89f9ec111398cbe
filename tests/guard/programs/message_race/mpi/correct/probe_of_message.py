"""Messages that are taken by `Message.Probe` and its kin, and others of the same source and tag that are not."""
# ranks: 2

import numpy as np
from mpi4py import MPI


class Parcel(MPI.Message):
    """A class of the user's."""


comm = MPI.COMM_WORLD
numbers = np.zeros(8, "i4")
if comm.rank == 0:
    for source in range(1, comm.size):
        pair = np.zeros(2)
        MPI.Message.Probe(comm, source, 1).Recv(pair)
        comm.Recv(numbers, source=source, tag=1)
        while (found := MPI.Message.Iprobe(comm, tag=1)) is None:
            pass
        found.Recv(pair)
        comm.Recv(numbers, source=source, tag=1)
        parcel = Parcel.probe(comm, source=source, tag=2)
        print(source, pair, numbers, type(parcel), parcel.recv())
        while (parcel := Parcel.iprobe(comm, source=source, tag=2)) is None:
            pass
        print(source, type(parcel), parcel.recv(), comm.recv(source=source, tag=2))
        comm.send("next", dest=source)
else:
    for step in range(2):
        comm.Send(np.full(2, step + 0.5), dest=0, tag=1)
        comm.Send(np.full(8, step, "i4"), dest=0, tag=1)
    for step in range(3):
        comm.send((comm.rank, step), dest=0, tag=2)
    comm.recv(source=0)
comm.Barrier()
