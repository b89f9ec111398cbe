"""A thread synchronises a copy of the world behind the training; rank 1 does not start it, and the others join it."""
# ranks: 3
# finding: deadlock
# out of line: 1
# cause: skipped-call
# says: rank 1 left out the Barrier

import threading

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
checkpoints = comm.Dup()


def write_checkpoint():
    checkpoints.Barrier()  # <- here


class Trainer:
    def __init__(self):
        self.gradient = np.ones(4)
        self.writer = None

    def step(self, number):
        comm.Allreduce(MPI.IN_PLACE, self.gradient)
        if number == 2 and comm.rank != 1:  # fixed: if number == 2:
            self.writer = threading.Thread(target=write_checkpoint)
            self.writer.start()

    def finish(self):
        if self.writer is not None:
            self.writer.join()


trainer = Trainer()
for number in range(4):
    trainer.step(number)
trainer.finish()
comm.Barrier()
print("rank", comm.rank, "done")
