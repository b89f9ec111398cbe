"""An object cannot be unpickled: its receiver catches that, and the message is gone all the same."""
# ranks: 2

import numpy as np
from mpi4py import MPI


class Odd:
    """Can be sent, and raises where it is received."""

    def __reduce__(self):
        return int, ("not a number",)


comm = MPI.COMM_WORLD.Dup()
if comm.rank == 0:
    comm.send(Odd(), dest=1, tag=1)
    comm.isend(Odd(), dest=1, tag=2).wait()
    comm.Send(np.ones(2), dest=1, tag=3)
else:
    for receive in (lambda: comm.recv(source=0, tag=1), lambda: comm.irecv(source=0, tag=2).wait()):
        try:
            receive()
        except ValueError as error:
            print(error)
    comm.Recv(np.empty(2), source=0, tag=3)
comm.Barrier()
comm.Free()
