"""Accumulates gradients over micro-batches of at most 8 tokens."""

import numpy as np
from mpi4py import MPI

from paceline import LengthPlan

MOST_TOKENS = 8
LENGTHS = np.array([4, 4, 4, 4, 3, 5, 2, 6, 6, 6, 6, 6])  # tokens of all samples

comm = MPI.COMM_WORLD
plan = LengthPlan(LENGTHS, world_size=comm.size, max_tokens=MOST_TOKENS)
gradient, total = np.zeros(1), np.zeros(1)
for samples in plan.rows(comm.rank):
    lengths = LENGTHS[samples[samples >= 0]]  # -1 where there is no sample
    comm.Allreduce(np.array([float(lengths.sum())]), total)
    gradient += total
comm.Barrier()  # the step is over
print(f"rank {comm.rank}: gradient {gradient[0]:.0f}")
