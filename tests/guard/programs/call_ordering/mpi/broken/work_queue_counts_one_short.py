"""A farm of tasks: the manager sends one stop signal too few, so one worker waits for ever."""
# ranks: 4
# finding: peer-gone | deadlock
# out of line: 0 | 3
# cause: early-exit | receive-without-send | rank-conditional-call

from mpi4py import MPI

TASK, RESULT, STOP = 1, 2, 3
comm = MPI.COMM_WORLD


def manage(tasks):
    status = MPI.Status()
    results, queue = [], list(tasks)
    for worker in range(1, comm.size):
        comm.send(queue.pop(), dest=worker, tag=TASK)
    while len(results) < len(tasks):
        results.append(comm.recv(source=MPI.ANY_SOURCE, tag=RESULT, status=status))
        if queue:
            comm.send(queue.pop(), dest=status.Get_source(), tag=TASK)
    for worker in range(1, comm.size - 1):  # fixed: for worker in range(1, comm.size):
        comm.send(None, dest=worker, tag=STOP)
    return results


def work():
    status = MPI.Status()
    while True:
        task = comm.recv(source=0, tag=MPI.ANY_TAG, status=status)  # <- here
        if status.Get_tag() == STOP:
            return
        comm.send(task * task, dest=0, tag=RESULT)


if comm.rank == 0:
    print(sum(manage(range(10))))
else:
    work()
