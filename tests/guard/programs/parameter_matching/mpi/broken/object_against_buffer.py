"""One module sends arrays with the buffer call, the other receives objects."""
# ranks: 2
# finding: message dtype | message | peer-gone
# cause: dtype | exception | early-exit

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD


class Writer:
    def push(self, values):
        comm.Send(values, dest=1, tag=4)  # fixed: comm.send(values, dest=1, tag=4)


class Reader:
    def pull(self):
        return comm.recv(source=0, tag=4)  # <- here


if comm.rank == 0:
    writer = Writer()
    for step in range(3):
        writer.push(np.full(4, float(step)))
else:
    reader = Reader()
    for _ in range(3):
        print(reader.pull())
comm.Barrier()
