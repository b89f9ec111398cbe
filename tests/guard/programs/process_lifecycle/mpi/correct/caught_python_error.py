"""Rank 1 raises, catches, and goes on; another one ends a thread with an exception."""
# ranks: 3

import threading

from mpi4py import MPI

comm = MPI.COMM_WORLD
for step in range(3):
    try:
        if comm.rank == 1:
            raise KeyError(step)
        value = step
    except KeyError:
        value = -1
    print("rank", comm.rank, step, comm.allreduce(value))


def fail() -> None:
    raise SystemExit


thread = threading.Thread(target=fail)
thread.start()
thread.join()
comm.Barrier()
