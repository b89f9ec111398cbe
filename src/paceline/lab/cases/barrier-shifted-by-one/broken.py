"""Trains in step; rank 0 saves a checkpoint at step 5, and the save waits for all."""

import numpy as np
from mpi4py import MPI

NUM_STEPS, SAVE_AT = 200, 5

comm = MPI.COMM_WORLD
loss, total = np.zeros(1), np.zeros(1)


def save(step):
    if comm.rank == 0:
        print(f"rank 0: checkpoint of step {step}")
    comm.Barrier()  # the checkpoint is there for all


for step in range(NUM_STEPS):
    loss += comm.rank
    if step == SAVE_AT and comm.rank == 0:
        save(step)
    comm.Barrier()  # the step ends on all ranks

comm.Allreduce(loss, total)
print(f"rank {comm.rank}: total {total[0]:.0f}")
