"""A master gives out tasks with varying tags and takes results from whoever comes first."""
# ranks: 4

from mpi4py import MPI

comm = MPI.COMM_WORLD
stop = 0
if comm.rank == 0:
    tasks, results, status = list(range(1, 41)), [], MPI.Status()
    active = 0
    for worker in range(1, comm.size):
        comm.send(tasks.pop(), dest=worker, tag=worker * 10)
        active += 1
    while active:
        results.append(comm.recv(source=MPI.ANY_SOURCE, tag=MPI.ANY_TAG, status=status))
        worker = status.Get_source()
        if tasks:
            comm.send(tasks.pop(), dest=worker, tag=worker * 10 + len(tasks))
        else:
            comm.send(None, dest=worker, tag=stop)
            active -= 1
    print("sum", sum(results))
else:
    while (task := comm.recv(source=0, tag=MPI.ANY_TAG)) is not None:
        comm.send(task * task, dest=0, tag=task)
