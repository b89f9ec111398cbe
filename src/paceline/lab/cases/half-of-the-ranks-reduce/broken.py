"""Averages a metric over the ranks that hold validation data: every second one."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
metric, total = np.full(1, 0.5 + comm.rank), np.zeros(1)
comm.Barrier()
if comm.rank % 2 == 0:  # these have data
    comm.Allreduce(metric, total, op=MPI.SUM)
print(f"rank {comm.rank}: metric {total[0]:.2f}")
