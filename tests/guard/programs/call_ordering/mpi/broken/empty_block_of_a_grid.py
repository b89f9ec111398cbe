"""Blocks are summed along rows and then along columns; a rank with an empty block returns before both."""
# ranks: 4
# finding: deadlock
# out of line: 3
# cause: skipped-call
# says: rank 3 left out the allreduce

from mpi4py import MPI

world = MPI.COMM_WORLD
row = world.Split(world.rank // 2)
column = world.Split(world.rank % 2)


def multiply(block):
    if not block:
        return 0  # fixed: pass
    partial = row.allreduce(sum(block))  # <- here
    return column.allreduce(partial)  # <- here


result = multiply([] if world.rank == 3 else [1, 2])
print("rank", world.rank, world.allgather(result))
column.Free()
row.Free()
