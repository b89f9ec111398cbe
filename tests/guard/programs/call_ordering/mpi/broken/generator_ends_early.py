"""Batches come from a generator that ends on StopIteration of a shorter shard; the epoch ends with a reduction."""
# ranks: 4
# finding: mismatch operation
# out of line: 3
# cause: uneven-steps
# says: 5

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
SAMPLES = 23


def shard():
    return range(comm.rank, SAMPLES, comm.size)


def batches(samples):
    iterator = iter(samples)
    while True:
        try:
            yield np.full(4, float(next(iterator)))
        except StopIteration:
            return


def run_epoch():
    num_steps = 0
    source = batches(shard())  # fixed: source = batches(range(comm.allreduce(len(shard()), op=MPI.MIN)))
    for batch in source:
        comm.Allreduce(MPI.IN_PLACE, batch)  # <- here
        num_steps += 1
    return comm.allreduce(num_steps)


for epoch in range(2):
    print("rank", comm.rank, epoch, run_epoch())
