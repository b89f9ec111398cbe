"""A rank receives from itself what a thread of another kind will send, a moment later."""
# ranks: 2

import _thread
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.pool import ThreadPool

from mpi4py import MPI

comm = MPI.COMM_WORLD.Dup()


def send(tag):
    """Send to this very rank, late."""
    time.sleep(0.3)
    comm.send(tag, dest=comm.rank, tag=tag)


threading.Timer(0.1, send, (1,)).start()
assert comm.recv(source=comm.rank, tag=1) == 1
with ThreadPoolExecutor(2) as pool:
    pool.submit(send, 2)
    assert comm.recv(source=comm.rank, tag=2) == 2
with ThreadPool(2) as pool:
    pool.apply_async(send, (3,))
    assert comm.recv(source=comm.rank, tag=3) == 3
_thread.start_new_thread(send, (4,))
assert comm.recv(source=comm.rank, tag=4) == 4
print(f"rank {comm.rank} got all\n", end="", flush=True)
