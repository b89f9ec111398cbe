"""Two ranks come to the end of the script while a thread of theirs waits for rank 2, which waits for a message."""
# ranks: 3
# finding: deadlock
# out of line: 2
# cause: receive-without-send

import threading

from mpi4py import MPI

comm = MPI.COMM_WORLD
side = comm.Dup()


def report():
    side.Barrier()  # <- here


comm.Barrier()
thread = threading.Thread(target=report)
if comm.rank == 2:
    comm.recv(source=0)  # fixed: pass
thread.start()
