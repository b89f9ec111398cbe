"""Ranks, roots and tags as numpy's integers, arguments by name, and communicators of a class of the user's own."""
# ranks: 3

import pickle

import numpy
from mpi4py import MPI

comm = MPI.COMM_WORLD
assert isinstance(MPI.COMM_SELF, MPI.Intracomm)
assert isinstance(MPI.REQUEST_NULL, MPI.Request)
comm.Bcast(numpy.zeros(1), root=numpy.int32(1))
comm.bcast(3, root=numpy.int16(1))
if comm.rank == 0:
    comm.send(obj=1, dest=numpy.int64(1), tag=numpy.int64(3))
    comm.Send(buf=numpy.ones(2), dest=1, tag=7)
    comm.isend(obj=2, dest=1).wait()
if comm.rank == 1:
    buffer = numpy.empty(2)
    assert comm.recv(source=numpy.int64(0), tag=numpy.int64(3)) == 1
    comm.Recv(buf=buffer, source=0, tag=7)
    assert comm.irecv(source=0).wait() == 2


class Team(MPI.Intracomm):
    """What mpi4py's users do: derive, and make it from a communicator."""

    def count(self):
        return self.allreduce(1)


team = Team(comm)
print(
    f"{comm.rank} {team.count()} {isinstance(team, Team)} {isinstance(comm, Team)} {team == comm}\n", end="", flush=True
)
MPI.Intracomm(comm).Barrier()
assert pickle.loads(pickle.dumps(comm)) == comm
team.Dup().Barrier()
MPI.COMM_SELF.Dup().Barrier()
