"""Rank 0 sends four features to rank 1."""

import numpy as np
from mpi4py import MPI

MOST = 16  # features that a sample may have

comm = MPI.COMM_WORLD
comm.Barrier()
if comm.rank == 0:
    features = np.linspace(0.25, 1.0, 4)
    comm.Send(features, dest=1, tag=5)
else:
    room, status = np.zeros(MOST, dtype="f4"), MPI.Status()
    comm.Recv(room, source=0, tag=5, status=status)
    features = room[:4]
print(f"rank {comm.rank}: mean {features.mean():.3f}")
