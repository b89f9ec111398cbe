"""A farm with uneven tasks: workers end as soon as they are told to, long before the manager does."""
# ranks: 4

import time

from mpi4py import MPI

TASK, STOP = 1, 2
comm = MPI.COMM_WORLD
if comm.rank == 0:
    status, queue, results, active = MPI.Status(), list(range(11)), [], comm.size - 1
    while active:
        results.append(comm.recv(source=MPI.ANY_SOURCE, status=status))
        worker = status.Get_source()
        if queue and worker != 3:  # this one has no more room
            comm.send(queue.pop(), dest=worker, tag=TASK)
        else:
            comm.send(None, dest=worker, tag=STOP)
            active -= 1
    time.sleep(0.2)
    print(sorted(result for result in results if result is not None))
else:
    status, result = MPI.Status(), None
    while True:
        comm.send(result, dest=0)
        task = comm.recv(source=0, status=status)
        if status.Get_tag() == STOP:
            break
        result = task * task
