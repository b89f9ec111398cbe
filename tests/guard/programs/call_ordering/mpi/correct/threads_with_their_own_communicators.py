"""Two threads per rank, each with a duplicate of the world, in no common order."""
# ranks: 2

import threading
import time

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
copies = [comm.Dup(), comm.Dup()]
totals = np.zeros((2, 1))


def work(index: int) -> None:
    for step in range(20):
        if (comm.rank + index) % 2:
            time.sleep(0.005)
        copies[index].Allreduce(np.full(1, step + index, dtype="f8"), totals[index])
    copies[index].Barrier()


threads = [threading.Thread(target=work, args=(index,)) for index in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("rank", comm.rank, totals[:, 0])
