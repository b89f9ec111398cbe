"""The main thread waits in a receive; another thread of the same rank sends what frees it."""
# ranks: 2

import threading
import time

from mpi4py import MPI

comm = MPI.COMM_WORLD
copy = comm.Dup()


def send_later() -> None:
    time.sleep(0.7)
    copy.send(comm.rank * 10, dest=comm.rank, tag=5)


thread = threading.Thread(target=send_later)
thread.start()
print("rank", comm.rank, copy.recv(source=comm.rank, tag=5))
thread.join()
comm.Barrier()
