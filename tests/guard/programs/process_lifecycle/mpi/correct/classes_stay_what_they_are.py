"""Looks at mpi4py as closely as a program can: types, identities, pickles, signatures, handles that are freed."""
# ranks: 1

import copy
import inspect
import pickle
import re
import weakref

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
box = np.zeros(1)


class Named(MPI.Intracomm):
    """A class of the user's, with names that mpi4py has too."""

    handle = None

    def Barrier(self):  # noqa: N802 (mpi4py's name)
        print("our barrier")
        super().Barrier()


def what_it_raises(function, *args, **named):
    try:
        return function(*args, **named)
    except Exception as error:
        return type(error).__name__


for thing in (comm, MPI.COMM_SELF, MPI.COMM_NULL, MPI.REQUEST_NULL):
    print(type(thing), pickle.loads(pickle.dumps(thing)) is thing, copy.copy(thing) is thing, hash(type(thing)) != 0)
print(what_it_raises(hash, comm), what_it_raises(pickle.dumps, comm.Dup()), repr(comm)[:24])
print(type(comm) is MPI.Intracomm, type(comm).__mro__, MPI.Cartcomm.__subclasses__(), MPI.Intracomm.__module__)
for kind in (MPI.Comm, MPI.Intracomm, MPI.Topocomm, MPI.Cartcomm, MPI.Intercomm, MPI.Request, MPI.Prequest):
    for name in sorted(vars(kind)):
        member = getattr(kind, name)
        if not name.startswith("_") and callable(member):
            signature = re.sub("0x[0-9a-f]+", "", str(what_it_raises(inspect.signature, member)))
            print(kind.__name__, name, member.__name__, member.__qualname__, signature, hash(member.__doc__ or "") != 0)
            print(pickle.loads(pickle.dumps(member)) == member)
print(what_it_raises(comm.Send), what_it_raises(comm.bcast, root="x"), what_it_raises(MPI.Request.Waitall))

named = Named(comm)
named.Barrier()
clone = named.Dup()
print(type(named), type(clone), clone.allreduce(1), MPI.Comm.Compare(comm, named) == MPI.IDENT)
clone.Free()
print(bool(clone), type(comm.Create_cart([comm.size])), isinstance(comm, Named))

request = comm.Irecv(box, source=comm.rank, tag=1)
alive = weakref.ref(request)
sending = comm.Isend(np.ones(1), dest=comm.rank, tag=1)
print(type(request), request == MPI.Request(request), type(sending))
request.Wait()
sending.Wait()
print(bool(request), request == MPI.REQUEST_NULL)
del request
print(alive() is None)
requests = [comm.Send_init(box, dest=0), comm.Recv_init(box), comm.Ibarrier()]
print([type(request) for request in requests])
requests.pop().Wait()
for request in requests:
    request.Free()

comm.Set_errhandler(MPI.ERRORS_RETURN)
print(what_it_raises(comm.Free), what_it_raises(MPI.COMM_NULL.Free))
print(bool(MPI.COMM_WORLD), comm.allreduce(1), MPI.COMM_SELF.allreduce(1))
for step in range(50):  # handles are used again at once
    one, two = comm.Dup(), comm.Split(0, -comm.rank)
    one.Barrier()
    two.bcast(step, root=0)
    (one if step % 2 else two).Free()
    three = comm.Dup()
    three.allreduce(step)
    three.free()
    (two if step % 2 else one).Disconnect()
comm.Barrier()
