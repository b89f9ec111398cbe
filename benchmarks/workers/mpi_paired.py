"""Times watched and unwatched calls of mpi4py alternately, in a job of one rank under the guard; it prints JSON.

Messages go from the rank to itself: nobody waits for anybody, so the processor time is that of the calls alone. Ranks
that wait for each other poll, which is processor time too: between several, mpi_around.py measures.
"""

import json

import numpy as np
from alternation import added
from mpi4py import MPI

comm = MPI.COMM_WORLD
PAIRS, CALLS = 41, 1000
one, other = np.ones(1), np.empty(1)
to = peer = comm.rank
Comm, Intracomm, Request = MPI.Comm, MPI.Intracomm, MPI.Request
NAMES = (
    (Comm, "Barrier"), (Comm, "Allreduce"), (Comm, "Send"), (Comm, "Recv"), (Comm, "Isend"), (Comm, "Irecv"),
    (Request, "Wait"),
)  # fmt: skip
watched = {name: getattr(kind, name) for kind, name in NAMES}
plain = {name: function.__wrapped__ for name, function in watched.items()}


def calls(now):
    """Return what is timed, made of watched or of unwatched functions; it sends to itself."""
    barrier, all_reduce, send, receive = (now[name] for name in ("Barrier", "Allreduce", "Send", "Recv"))
    post_send, post_receive, wait = (now[name] for name in ("Isend", "Irecv", "Wait"))
    begin_send, end = plain["Isend"], plain["Wait"]
    begin_receive = plain["Irecv"]

    def send_one():
        request = begin_receive(comm, other, peer, 5)
        send(comm, one, to, 5)
        end(request)

    def receive_one():
        request = begin_send(comm, one, to, 5)
        receive(comm, other, peer, 5)
        end(request)

    def receive_from_anybody():
        request = begin_send(comm, one, to, 5)
        receive(comm, other, MPI.ANY_SOURCE, 5)
        end(request)

    def post_both():
        received, sent = post_receive(comm, other, peer, 5), post_send(comm, one, to, 5)
        wait(received)
        wait(sent)

    # name -> what to call, and how many watched calls are in it
    return {
        "Barrier": (lambda: barrier(comm), 1),
        "Allreduce, 8 B": (lambda: all_reduce(comm, one, other), 1),
        "Send, 8 B": (send_one, 1),
        "Recv, 8 B": (receive_one, 1),
        "Recv from anybody, 8 B": (receive_from_anybody, 1),
        "Irecv, Isend and two Waits, 8 B": (post_both, 4),
    }


figures = {}
for name, (call, num) in calls(watched).items():
    row = added(call, calls(plain)[name][0], calls=CALLS, pairs=PAIRS, meet=lambda: plain["Barrier"](comm))
    for kind in row.values():  # for each watched call
        found = kind["added"]
        kind["added"] = {"median": found["median"] / num, "quarters": [value / num for value in found["quarters"]]}
    figures[name] = row
print(json.dumps(figures), flush=True)
