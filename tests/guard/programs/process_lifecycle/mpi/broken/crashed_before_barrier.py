"""The last rank crashes in C while the others wait for it."""
# ranks: 3
# finding: peer-gone
# out of line: 2
# cause: killed

import os
import signal
import time

from mpi4py import MPI

comm = MPI.COMM_WORLD
comm.Barrier()
if comm.rank == comm.size - 1:
    time.sleep(0.3)
    os.kill(os.getpid(), signal.SIGSEGV)  # fixed: pass
comm.allreduce(1)  # <- here
print("rank", comm.rank, "done")
