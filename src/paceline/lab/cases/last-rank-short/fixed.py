"""Adds up a loss over 100 samples, in batches of 3, on any number of ranks."""

import math

import numpy as np
from mpi4py import MPI

NUM_SAMPLES, BATCH_SIZE, NUM_EPOCHS = 100, 3, 2

comm = MPI.COMM_WORLD
share = math.ceil(NUM_SAMPLES / comm.size)
begin = comm.rank * share
end = min(begin + share, NUM_SAMPLES)  # the last rank takes what is left
loss, total = np.zeros(1), np.zeros(1)

for epoch in range(NUM_EPOCHS):
    for start in range(begin, begin + share, BATCH_SIZE):  # the same steps on every rank; the last may be empty
        batch = np.arange(start, min(start + BATCH_SIZE, end))
        loss += batch.sum()
        comm.Barrier()  # the step ends on all ranks
    comm.Barrier()  # the epoch ends on all ranks
    print(f"rank {comm.rank}: epoch {epoch} done")

comm.Reduce(loss, total, op=MPI.SUM, root=0)
print(f"rank {comm.rank}: total {total[0]:.0f}")
