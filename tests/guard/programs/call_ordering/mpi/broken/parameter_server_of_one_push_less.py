"""Workers push gradients to a server and pull weights; one worker skips pushes of empty batches, but still pulls."""
# ranks: 4
# finding: deadlock | message source
# out of line: 2
# cause: receive-without-send | message-order

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
PUSH, PULL = 11, 12
STEPS = 8


def serve(weights):
    for _ in range(STEPS):
        for worker in range(1, comm.size):
            gradient = np.empty_like(weights)
            comm.Recv(gradient, source=worker, tag=PUSH)  # <- here
            weights -= 0.1 * gradient
        for worker in range(1, comm.size):
            comm.Send(weights, dest=worker, tag=PULL)


def train(weights, batches):
    for batch in batches:
        if len(batch):  # fixed: if True:
            comm.Send(np.full_like(weights, np.sum(batch)), dest=0, tag=PUSH)
        comm.Recv(weights, source=0, tag=PULL)


weights = np.zeros(4)
if comm.rank == 0:
    serve(weights)
else:
    batches = [np.ones(3)] * STEPS
    if comm.rank == 2:
        batches[5] = np.ones(0)
    train(weights, batches)
print("rank", comm.rank, weights.sum() < 0)
