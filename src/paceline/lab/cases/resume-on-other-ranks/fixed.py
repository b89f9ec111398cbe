"""Trains 3 steps on 4 ranks and saves; the epoch is then finished on 3 ranks."""

import numpy as np
from mpi4py import MPI

NUM_SAMPLES, BATCH_SIZE, SAVED_AT = 48, 2, 3


def batches(rank, world_size, consumed=0):
    """Return the batches of a rank, one row per step, of what is left after `consumed` samples of all ranks."""
    share = np.arange(consumed, NUM_SAMPLES)[rank::world_size]
    return share.reshape(-1, BATCH_SIZE)


def epoch(comm):
    """Return the samples that this rank has trained on, before and after the restart."""
    seen = batches(comm.rank, comm.size)[:SAVED_AT].ravel().tolist()
    checkpoint = {"consumed": SAVED_AT * BATCH_SIZE * comm.size}
    smaller = comm.Split(0 if comm.rank < 3 else MPI.UNDEFINED)  # one rank is lost
    if smaller != MPI.COMM_NULL:
        seen += batches(smaller.rank, smaller.size, checkpoint["consumed"]).ravel().tolist()
    return seen


def main():
    comm = MPI.COMM_WORLD
    seen = comm.allreduce(epoch(comm))
    print(f"rank {comm.rank}: {len(seen)} samples seen, {len(set(seen))} different ones, sum {sum(seen)}")


if __name__ == "__main__":
    main()
