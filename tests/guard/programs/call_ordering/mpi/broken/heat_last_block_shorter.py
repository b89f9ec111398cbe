"""Heat equation in blocks; the last rank has fewer rows and stops its own iteration when its own residual is small."""
# ranks: 3
# finding: mismatch operation | message | deadlock | peer-gone
# out of line: 2
# cause: uneven-steps
# says: decide it together

import numpy as np
from mpi4py import MPI


class Heat:
    def __init__(self, comm, rows):
        self.comm = comm
        self.field = np.full((rows + 2, 8), float(comm.rank))
        self.up = comm.rank - 1 if comm.rank > 0 else MPI.PROC_NULL
        self.down = comm.rank + 1 if comm.rank < comm.size - 1 else MPI.PROC_NULL

    def exchange(self):
        self.comm.Sendrecv(self.field[1], dest=self.up, recvbuf=self.field[-1], source=self.down)  # <- here
        self.comm.Sendrecv(self.field[-2], dest=self.down, recvbuf=self.field[0], source=self.up)  # <- here

    def relax(self):
        old = self.field.copy()
        self.field[1:-1] = 0.5 * (old[:-2] + old[2:])
        return float(np.abs(self.field - old).max())


def main():
    comm = MPI.COMM_WORLD
    rows = [6, 6, 2][comm.rank]
    heat = Heat(comm, rows)
    for _iteration in range(40):
        heat.exchange()
        residual = heat.relax()
        # fixed: residual = comm.allreduce(residual, op=MPI.MAX)
        if residual < 0.05 * rows:  # fixed: if residual < 0.05:
            break
    total = comm.reduce(float(heat.field.sum()), root=0)
    if comm.rank == 0:
        print("total", total is not None)


main()
