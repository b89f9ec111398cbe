"""Adds up a loss over 100 samples, in batches of 3, on any number of ranks."""

import numpy as np
from mpi4py import MPI

from paceline import Plan

NUM_SAMPLES, BATCH_SIZE, NUM_EPOCHS = 100, 3, 2

comm = MPI.COMM_WORLD
plan = Plan(NUM_SAMPLES, world_size=comm.size, batch_size=BATCH_SIZE)
loss, total = np.zeros(1), np.zeros(1)

for epoch in range(NUM_EPOCHS):
    for row in plan.rows(comm.rank, epoch=epoch):
        loss += row[row >= 0].sum()  # -1 where there is no sample
        comm.Barrier()  # the step ends on all ranks
    comm.Barrier()  # the epoch ends on all ranks
    print(f"rank {comm.rank}: epoch {epoch} done")

comm.Reduce(loss, total, op=MPI.SUM, root=0)
print(f"rank {comm.rank}: total {total[0]:.0f}")
