"""A farm: the master sends the end to all workers but the last, which waits for more work."""
# ranks: 4
# finding: deadlock
# out of line: 0
# cause: receive-without-send
# says: but not to rank 3

from mpi4py import MPI

WORK, END, RESULT = 1, 2, 3
comm = MPI.COMM_WORLD


def hand_out(tasks):
    status, results = MPI.Status(), []
    for worker in range(1, comm.size):
        comm.send(tasks.pop(), dest=worker, tag=WORK)
    for _ in range(12):
        results.append(comm.recv(source=MPI.ANY_SOURCE, tag=RESULT, status=status))
        if tasks:
            comm.send(tasks.pop(), dest=status.Get_source(), tag=WORK)
    for worker in range(1, comm.size - 1):  # fixed: for worker in range(1, comm.size):
        comm.send(None, dest=worker, tag=END)
    return results


def work():
    while (task := comm.recv(source=0)) is not None:  # <- here
        comm.send(task**2, dest=0, tag=RESULT)


if comm.rank == 0:
    print(sum(hand_out(list(range(12)))))
else:
    work()
comm.Barrier()
