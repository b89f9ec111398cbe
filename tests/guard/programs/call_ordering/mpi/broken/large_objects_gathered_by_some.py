"""Large objects go through pkl5, beside plain calls; rank 1 comes to the gather one barrier too late."""
# ranks: 3
# finding: mismatch operation | mismatch
# out of line: 1
# cause: rank-conditional-call | extra-call

from mpi4py import MPI
from mpi4py.util import pkl5

comm = MPI.COMM_WORLD
objects = pkl5.Intracomm(comm)
shards = [bytes(1000)] * 10
for epoch in range(3):
    total = comm.allreduce(len(shards))
    if comm.rank == 1 and epoch == 1:  # fixed: if False:
        comm.Barrier()  # <- here
    everything = objects.gather(shards, root=0)
objects.allgather(total)
print("rank", comm.rank, "done")
