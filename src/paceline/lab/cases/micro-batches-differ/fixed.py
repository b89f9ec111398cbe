"""Accumulates gradients over micro-batches of at most 8 tokens."""

import numpy as np
from mpi4py import MPI

MOST_TOKENS = 8
LENGTHS = ([4, 4, 4, 4], [3, 5, 2, 6], [6, 6, 6, 6])  # tokens of the samples of each rank


def micro_batches(lengths):
    batches = [[]]
    for length in lengths:
        if sum(batches[-1]) + length > MOST_TOKENS:
            batches.append([])
        batches[-1].append(length)
    return batches


comm = MPI.COMM_WORLD
gradient, total = np.zeros(1), np.zeros(1)
for batch in micro_batches(LENGTHS[comm.rank]):
    gradient += sum(batch)
comm.Allreduce(gradient, total)  # once per step, however many micro-batches there were
gradient[:] = total
comm.Barrier()  # the step is over
print(f"rank {comm.rank}: gradient {gradient[0]:.0f}")
