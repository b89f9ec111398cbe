"""A thread makes the collective; on one rank it raises before, and the script goes on without it."""
# ranks: 3
# finding: mismatch operation
# out of line: 1
# says: a thread of rank 1 raised KeyError: 'count'

import threading

from mpi4py import MPI

comm = MPI.COMM_WORLD
counts = {"count": 1}
if comm.rank == 1:
    counts = {}  # fixed: pass
totals = []


def exchange():
    totals.append(comm.allreduce(counts["count"]))  # <- here


thread = threading.Thread(target=exchange)
thread.start()
thread.join()
comm.Barrier()
print("rank", comm.rank, totals)
