"""What watching adds around calls of mpi4py between several ranks, in one job under the guard; rank 0 prints JSON."""

import json

import numpy as np
from around_calls import added_around, marked

import paceline.guard.rank.mpi.mpi_hooks as hooks
from paceline.guard.rank.mpi.replaced_methods import own_method, replace_methods

NAMES = {"Comm": ("Barrier", "Allreduce", "Send", "Recv", "Isend", "Irecv"), "Request": ("Wait",)}
watch_mpi = hooks.watch_mpi


def watch_marked(mpi):
    """Mark the functions of mpi4py before the guard wraps them."""
    for kind, names in NAMES.items():
        members = getattr(mpi, kind)
        replace_methods(members, {name: marked(own_method(members, name)) for name in names})
    watch_mpi(mpi)


hooks.watch_mpi = watch_marked
from mpi4py import MPI  # noqa: E402 (the guard watches it from here on)

comm = MPI.COMM_WORLD
share = MPI.Comm.Bcast.__wrapped__
watched = {name: getattr(getattr(MPI, kind), name) for kind, names in NAMES.items() for name in names}
plain = {name: function.__wrapped__ for name, function in watched.items()}
one, other = np.ones(1), np.empty(1)
to, peer = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size


def agree(goes_on):
    """Return what the first rank says, on all ranks."""
    said = np.array([goes_on])
    share(comm, said, 0)
    return bool(said[0])


def send(now, around):
    request = now["Irecv"](comm, other, peer, 5)
    around(now["Send"], comm, one, to, 5)
    now["Wait"](request)


def receive(source):
    def receive_one(now, around):
        request = now["Isend"](comm, one, to, 5)
        around(now["Recv"], comm, other, source, 5)
        now["Wait"](request)

    return receive_one


def post_receive(now, around):
    request = around(now["Irecv"], comm, other, peer, 5)
    now["Send"](comm, one, to, 5)
    now["Wait"](request)


def post_send(now, around):
    received = now["Irecv"](comm, other, peer, 5)
    request = around(now["Isend"], comm, one, to, 5)
    now["Wait"](received)
    now["Wait"](request)


def wait(now, around):
    request = now["Irecv"](comm, other, peer, 5)
    now["Send"](comm, one, to, 5)
    around(now["Wait"], request)


CASES = {
    "Barrier": lambda now, around: around(now["Barrier"], comm),
    "Allreduce, 8 B": lambda now, around: around(now["Allreduce"], comm, one, other),
    "Send, 8 B": send,
    "Recv, 8 B": receive(peer),
    "Recv from anybody, 8 B": receive(MPI.ANY_SOURCE),
    "Isend, 8 B": post_send,
    "Irecv, 8 B": post_receive,
    "Wait, 8 B": wait,
}
figures = {name: added_around(run, watched, plain, agree=agree) for name, run in CASES.items()}
if comm.rank == 0:
    print(json.dumps(figures), flush=True)
