"""Objects through pkl5 in every way, beside plain calls on the same communicator."""
# ranks: 3

from mpi4py import MPI
from mpi4py.util import pkl5

comm = MPI.COMM_WORLD
objects = pkl5.Intracomm(comm)
mine = {"rank": comm.rank, "data": bytes(5000 * (comm.rank + 1))}
everything = objects.gather(mine, root=1)
comm.Barrier()
part = objects.scatter(everything, root=1)
assert part["rank"] == comm.rank
assert [item["rank"] for item in objects.allgather(mine)] == list(range(comm.size))
assert comm.allreduce(1) == comm.size
assert len(objects.alltoall([mine] * comm.size)) == comm.size
assert objects.bcast(mine if comm.rank == 0 else None)["rank"] == 0
following, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
request = objects.isend(mine, dest=following, tag=4)
assert objects.recv(source=before, tag=4)["rank"] == before
request.wait()
part_of_job = pkl5.Intracomm(comm.Split(comm.rank % 2))
print(f"rank {comm.rank} {len(part_of_job.allgather(comm.rank))}\n", end="", flush=True)
part_of_job.Free()
