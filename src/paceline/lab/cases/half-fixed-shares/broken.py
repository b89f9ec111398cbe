"""Adds up a loss over 100 samples; every rank makes the same number of steps, and the sum is checked."""

import numpy as np
from mpi4py import MPI

NUM_SAMPLES, BATCH_SIZE = 100, 3

comm = MPI.COMM_WORLD
share = NUM_SAMPLES // comm.size  # floor: the same for all, so nobody waits in vain
samples = np.arange(comm.rank * share, (comm.rank + 1) * share)
loss, total = np.zeros(1), np.zeros(1)

for start in range(0, share, BATCH_SIZE):
    loss += samples[start : start + BATCH_SIZE].sum()
    comm.Barrier()

comm.Reduce(loss, total, op=MPI.SUM, root=0)
expected = NUM_SAMPLES * (NUM_SAMPLES - 1) / 2
if comm.rank == 0 and total[0] != expected:
    raise ValueError(f"checksum {total[0]:.0f}, not {expected:.0f}")
comm.Barrier()  # nobody goes on before the sum is checked
print(f"rank {comm.rank}: checked")
