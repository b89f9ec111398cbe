"""Rank 0 takes a stop request out of its queue and leaves the loop, the others know nothing of it."""
# ranks: 3
# finding: mismatch operation
# out of line: 0
# cause: uneven-steps
# says: step

import queue

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
requests = queue.Queue()
if comm.rank == 0:
    requests.put((7, "stop"))


class StopRequestError(Exception):
    pass


def look_for_requests(step):
    if not requests.empty() and requests.queue[0][0] <= step:
        raise StopRequestError  # fixed: pass


state = np.zeros(4)
try:
    for step in range(20):
        look_for_requests(step)
        gradient = np.ones(4)
        comm.Allreduce(MPI.IN_PLACE, gradient)  # <- here
        state += gradient
except StopRequestError:
    print("stopped on request")
comm.Bcast(state, root=0)
print("rank", comm.rank, state.shape)
