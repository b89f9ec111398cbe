"""Trains 3 steps on 4 ranks and saves; the epoch is then finished on 3 ranks."""

from mpi4py import MPI

from paceline import Plan

NUM_SAMPLES, BATCH_SIZE, SAVED_AT = 48, 2, 3


def epoch(comm):
    """Return the samples that this rank has trained on, before and after the restart."""
    plan = Plan(NUM_SAMPLES, world_size=comm.size, batch_size=BATCH_SIZE)
    seen = plan.rows(comm.rank, num_steps=SAVED_AT).ravel().tolist()
    checkpoint = {"consumed": SAVED_AT * BATCH_SIZE * comm.size}
    smaller = comm.Split(0 if comm.rank < 3 else MPI.UNDEFINED)  # one rank is lost
    if smaller != MPI.COMM_NULL:
        rest = plan.resume(checkpoint["consumed"], world_size=smaller.size)
        seen += rest.rows(smaller.rank).ravel().tolist()
    return [sample for sample in seen if sample >= 0]  # -1 where there is no sample


def main():
    comm = MPI.COMM_WORLD
    seen = comm.allreduce(epoch(comm))
    print(f"rank {comm.rank}: {len(seen)} samples seen, {len(set(seen))} different ones, sum {sum(seen)}")


if __name__ == "__main__":
    main()
