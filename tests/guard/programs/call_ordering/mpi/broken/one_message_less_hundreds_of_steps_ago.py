"""A rank left out one acknowledgement in step 20 of 300; the receiver misses it at the end only."""
# ranks: 2
# finding: peer-gone | deadlock
# out of line: 1
# says: after it sent 299 messages
# cause: receive-without-send | early-exit | uneven-steps

from mpi4py import MPI

comm = MPI.COMM_WORLD
STEPS = 300
if comm.rank == 0:
    credits = 4
    for step in range(STEPS):
        if credits == 0:
            comm.recv(source=1, tag=2)
            credits += 1
        comm.send(step, dest=1, tag=1)
        credits -= 1
    while credits < 4:
        comm.recv(source=1, tag=2)  # <- here
        credits += 1
else:
    for _ in range(STEPS):
        task = comm.recv(source=0, tag=1)
        if task == 20:
            continue  # fixed: pass
        comm.send(None, dest=0, tag=2)  # <- here
print("rank", comm.rank, "done")
