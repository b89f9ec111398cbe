"""Producers send three items each over an intercommunicator; their consumers receive four."""
# ranks: 4
# finding: deadlock
# out of line: 0 2
# cause: receive-without-send
# says: for the 4th message

from mpi4py import MPI

world = MPI.COMM_WORLD
half = world.size // 2
is_producer = world.rank < half
local = world.Split(0 if is_producer else 1)
between = local.Create_intercomm(0, world, half if is_producer else 0, tag=7)
if is_producer:
    for item in range(3):  # fixed: for item in range(4):
        between.send(item, dest=local.rank, tag=1)  # <- here
else:
    items = [between.recv(source=local.rank, tag=1) for _ in range(4)]  # <- here
between.Barrier()
between.Free()
local.Free()
print("rank", world.rank, "done")
