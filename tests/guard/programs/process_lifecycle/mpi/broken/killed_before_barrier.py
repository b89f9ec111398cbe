"""Rank 1 is killed while the others wait for it."""
# ranks: 4
# finding: peer-gone
# out of line: 1
# cause: killed

import os
import signal
import time

from mpi4py import MPI

comm = MPI.COMM_WORLD
comm.Barrier()
if comm.rank == 1:
    time.sleep(0.3)
    os.kill(os.getpid(), signal.SIGKILL)  # fixed: pass
comm.Barrier()  # <- here
print("rank", comm.rank, "done")
