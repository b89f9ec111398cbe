"""isend and irecv of objects, with wait, test, waitany and waitall."""
# ranks: 3

from mpi4py import MPI

comm = MPI.COMM_WORLD
right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
for step in range(5):
    sending = comm.isend({"from": comm.rank, "step": step}, dest=right, tag=step)
    receiving = comm.irecv(source=left, tag=step)
    if step % 2:
        done, got = receiving.test()
        while not done:
            done, got = receiving.test()
    else:
        got = receiving.wait()
    sending.wait()
    print("rank", comm.rank, got)
requests = [comm.irecv(source=left, tag=50 + part) for part in range(3)]
for part in range(3):
    comm.send([part] * part, dest=right, tag=50 + part)
index, first = MPI.Request.waitany(requests)
print("rank", comm.rank, sorted([first, *(got for got in MPI.Request.waitall(requests) if got is not None)]))
