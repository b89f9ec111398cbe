"""Rank 0 hands out work, the others hand in results."""

from mpi4py import MPI

TAG_WORK, TAG_RESULT = 1, 2

comm = MPI.COMM_WORLD
if comm.rank == 0:
    for worker in range(1, comm.size):
        comm.send(list(range(worker * 10)), dest=worker, tag=TAG_WORK)
    results = [comm.recv(source=worker, tag=TAG_RESULT) for worker in range(1, comm.size)]
    print(f"rank 0: results {results}")
else:
    work = comm.recv(source=0, tag=TAG_WORK)
    comm.send(sum(work), dest=0, tag=TAG_RESULT)
    print(f"rank {comm.rank}: {len(work)} items done")
