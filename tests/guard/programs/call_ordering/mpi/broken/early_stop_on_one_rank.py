"""Each rank stops by its own loss: the last one earlier than the others."""
# ranks: 3
# finding: mismatch operation
# out of line: 2
# cause: uneven-steps

from mpi4py import MPI

comm = MPI.COMM_WORLD
loss, factor = 1.0, 0.25 if comm.rank == comm.size - 1 else 0.5  # fixed: loss, factor = 1.0, 0.5
step = 0
while loss > 0.01:
    loss *= factor
    comm.allreduce(loss, op=MPI.MAX)  # <- here  # fixed: loss = comm.allreduce(loss, op=MPI.MAX)
    step += 1
steps = comm.allgather(step)
print("rank", comm.rank, steps)
