"""A rank stops by itself when its time is over, with os._exit in a timer thread."""
# ranks: 3
# finding: peer-gone
# out of line: 1
# cause: early-exit | killed

import os
import threading
import time

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD


def give_up():
    os._exit(0)  # <- here  # fixed: pass


timer = threading.Timer(0.4, give_up)
timer.daemon = True
values = np.ones(16)
for step in range(6):
    if comm.rank == 1 and step == 4:
        timer.start()
        time.sleep(1.0)  # a long batch: the others wait for it
    comm.Allreduce(MPI.IN_PLACE, values)  # <- here
    values /= comm.size
print("rank", comm.rank, "done")
