"""Adds up a loss over 100 samples; every rank makes the same number of steps, and the sum is checked."""

import numpy as np
from mpi4py import MPI

NUM_SAMPLES, BATCH_SIZE = 100, 3

comm = MPI.COMM_WORLD
share = -(-NUM_SAMPLES // comm.size)  # rounded up: no sample is left out
samples = np.arange(comm.rank * share, min((comm.rank + 1) * share, NUM_SAMPLES))
loss, total = np.zeros(1), np.zeros(1)

for start in range(0, share, BATCH_SIZE):
    loss += samples[start : start + BATCH_SIZE].sum()
    comm.Barrier()

comm.Allreduce(loss, total, op=MPI.SUM)
expected = NUM_SAMPLES * (NUM_SAMPLES - 1) / 2
if total[0] != expected:  # on every rank, so that all raise or none
    raise ValueError(f"checksum {total[0]:.0f}, not {expected:.0f}")
comm.Barrier()  # nobody goes on before the sum is checked
print(f"rank {comm.rank}: checked")
