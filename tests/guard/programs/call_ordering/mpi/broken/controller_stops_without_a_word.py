"""Rank 0 broadcasts commands from a loop of its own; at "stop" it leaves the loop and tells nobody."""
# ranks: 3
# finding: mismatch operation
# out of line: 0
# cause: uneven-steps
# says: left the loop `for command in commands`

from mpi4py import MPI

comm = MPI.COMM_WORLD


def control(commands):
    for command in commands:
        if command == "stop":
            break  # fixed: pass
        comm.bcast(command, root=0)  # <- here
        if command == "stop":
            return
        execute(command)


def follow():
    while True:
        command = comm.bcast(None, root=0)  # <- here
        if command == "stop":
            return
        execute(command)


def execute(command):
    return comm.reduce(len(command), root=0)


if comm.rank == 0:
    control(["load", "fit", "stop"])
else:
    follow()
comm.Barrier()
print("rank", comm.rank, "done")
