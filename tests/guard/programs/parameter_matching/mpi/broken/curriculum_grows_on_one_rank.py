"""The sequence length follows a schedule that one rank has moved on in by itself."""
# ranks: 3
# finding: mismatch count
# out of line: 1
# cause: shape

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD


class Curriculum:
    def __init__(self):
        self.length = 8
        self.successes = 0

    def report(self, loss):
        self.successes += loss < 0.5  # fixed: self.successes += comm.allreduce(loss, op=MPI.MAX) < 0.5
        if self.successes == 3:
            self.length *= 2
            self.successes = 0


curriculum = Curriculum()
for step in range(12):
    hidden = np.ones(curriculum.length)
    comm.Allreduce(MPI.IN_PLACE, hidden)  # <- here
    loss = 1.0 / (step + 1) if comm.rank == 1 else 0.9
    curriculum.report(loss)
print("rank", comm.rank, curriculum.length)
