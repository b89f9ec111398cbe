"""Workers push gradients to a parameter server, and pull; one leaves out a round because of a NaN."""
# ranks: 4
# finding: deadlock
# out of line: 2
# cause: receive-without-send
# says: rank 2 made 3 calls of Send

import numpy as np
from mpi4py import MPI

PUSH, PULL, ROUNDS = 1, 2, 4
comm = MPI.COMM_WORLD
weights = np.zeros(3)
if comm.rank == 0:
    for _ in range(ROUNDS):
        for worker in range(1, comm.size):
            gradient = np.empty(3)
            comm.Recv(gradient, source=worker, tag=PUSH)  # <- here
            weights -= gradient
            comm.Send(weights, dest=worker, tag=PULL)
else:
    for step in range(ROUNDS):
        gradient = np.full(3, np.nan if comm.rank == 2 and step == 1 else 1.0)
        if np.isnan(gradient).any():
            continue  # fixed: gradient[:] = 0
        comm.Send(gradient, dest=0, tag=PUSH)  # <- here
        comm.Recv(weights, source=0, tag=PULL)
total = comm.allreduce(float(weights.sum()))
print("rank", comm.rank, "done")
