"""The manager of a farm counts one result too many and receives for ever, while the workers wait in a barrier."""
# ranks: 3
# finding: deadlock
# out of line: 0
# cause: receive-without-send
# says: 10th recv

from mpi4py import MPI

comm = MPI.COMM_WORLD
tasks = list(range(9))
if comm.rank == 0:
    done = 0
    for number, task in enumerate(tasks):
        comm.send(task, dest=1 + number % 2)
    for worker in (1, 2):
        comm.send(None, dest=worker)
    while done <= len(tasks):  # fixed: while done < len(tasks):
        comm.recv(source=MPI.ANY_SOURCE)  # <- here
        done += 1
else:
    while (task := comm.recv(source=0)) is not None:
        comm.send(task + 1, dest=0)
comm.Barrier()
print("rank", comm.rank, "done")
