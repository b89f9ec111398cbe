"""Adds up a loss over 100 samples; every rank makes the same number of steps, and the sum is checked."""

import numpy as np
from mpi4py import MPI

from paceline import Plan

NUM_SAMPLES, BATCH_SIZE = 100, 3

comm = MPI.COMM_WORLD
plan = Plan(NUM_SAMPLES, world_size=comm.size, batch_size=BATCH_SIZE)
loss, total = np.zeros(1), np.zeros(1)

for row in plan.rows(comm.rank):
    loss += row[row >= 0].sum()  # -1 where there is no sample
    comm.Barrier()

comm.Allreduce(loss, total, op=MPI.SUM)
expected = NUM_SAMPLES * (NUM_SAMPLES - 1) / 2
if total[0] != expected:  # on every rank, so that all raise or none
    raise ValueError(f"checksum {total[0]:.0f}, not {expected:.0f}")
comm.Barrier()  # nobody goes on before the sum is checked
print(f"rank {comm.rank}: checked")
