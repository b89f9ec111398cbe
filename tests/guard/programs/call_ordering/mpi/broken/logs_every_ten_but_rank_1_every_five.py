"""Each rank reads its own settings; rank 1 logs twice as often, and each log reduces the loss."""
# ranks: 3
# finding: mismatch operation | mismatch
# out of line: 1
# cause: extra-call | rank-conditional-call

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
SETTINGS = {0: {"log_every": 10}, 1: {"log_every": 5}, 2: {"log_every": 10}}
# fixed: SETTINGS[1]["log_every"] = 10


class Trainer:
    def __init__(self, settings):
        self.log_every = settings["log_every"]
        self.loss = 1.0

    def step(self):
        gradient = np.ones(8)
        comm.Allreduce(MPI.IN_PLACE, gradient)
        self.loss *= 0.9

    def log(self, step):
        mean = comm.reduce(self.loss, root=0)  # <- here
        if comm.rank == 0:
            print(step, round(mean / comm.size, 4))

    def run(self, steps):
        for step in range(1, steps + 1):
            self.step()
            if step % self.log_every == 0:
                self.log(step)


Trainer(SETTINGS[comm.rank]).run(20)
