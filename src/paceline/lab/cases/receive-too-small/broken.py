"""Rank 0 sends the boxes that it found in an image to rank 1."""

import numpy as np
from mpi4py import MPI

USUALLY = 4

comm = MPI.COMM_WORLD
comm.Barrier()
if comm.rank == 0:
    boxes = np.arange(6 * 4, dtype="f8").reshape(6, 4)  # this image has 6
    comm.Send(boxes, dest=1, tag=1)
else:
    boxes = np.zeros((USUALLY, 4))
    comm.Recv(boxes, source=0, tag=1)
print(f"rank {comm.rank}: {len(boxes)} boxes, sum {boxes.sum():.0f}")
