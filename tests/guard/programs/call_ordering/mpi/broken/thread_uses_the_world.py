"""A logging thread of rank 0 reduces on the world by itself, between the calls of the main thread."""
# ranks: 2
# finding: mismatch operation | mismatch
# out of line: 0 | 0 1
# cause: rank-conditional-call | extra-call | different-collectives

import threading

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
ready = threading.Event()


def log():
    ready.wait()
    comm.reduce(1.0, root=0)  # <- here


thread = threading.Thread(target=log, daemon=True)
values = np.ones(4)
for step in range(6):
    comm.Allreduce(MPI.IN_PLACE, values)
    if comm.rank == 0 and step == 3:  # fixed: if step == 3:
        thread.start()
        ready.set()
        thread.join()
comm.Barrier()
print("rank", comm.rank, "done")
