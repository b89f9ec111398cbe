"""Every rank counts the errors of its share by class; rank 0 adds the counts up and tells all."""

import numpy as np
from mpi4py import MPI

NUM_CLASSES = 5

comm = MPI.COMM_WORLD
errors = np.full(NUM_CLASSES, comm.rank, dtype="f8")
total = None
if comm.rank == 0:
    counts = np.zeros((comm.size - 1, NUM_CLASSES))
    for row in counts:  # one receive for each message
        comm.Recv(row, source=MPI.ANY_SOURCE)
    total = counts.sum()
else:
    comm.Send(errors, dest=0)
total = comm.bcast(total, root=0)
print(f"rank {comm.rank}: {total:.0f} errors")
