"""Times watched and unwatched calls of mpi4py on buffers of several sizes, in one rank under the guard; prints JSON.

What `--buffers` and `--results` cost is the difference between runs with and without them: see guard_options.py.
"""

import inspect
import json

import numpy as np
from alternation import added
from mpi4py import MPI

comm = MPI.COMM_SELF.Dup() if MPI.COMM_WORLD.size > 1 else MPI.COMM_WORLD
PAIRS = 41
NAMES = ((MPI.Comm, "Allreduce"), (MPI.Comm, "Isend"), (MPI.Comm, "Irecv"), (MPI.Request, "Wait"))
watched = {name: getattr(kind, name) for kind, name in NAMES}
plain = {name: inspect.unwrap(function) for name, function in watched.items()}


def calls(now, num_bytes):
    """Return what is timed, made of watched or of unwatched functions, on a buffer of this size."""
    mine, other = np.ones(num_bytes // 8), np.empty(num_bytes // 8)
    all_reduce, send, receive, wait = (now[name] for name in ("Allreduce", "Isend", "Irecv", "Wait"))

    def exchange():
        received, sent = receive(comm, other, 0, 5), send(comm, mine, 0, 5)
        wait(received)
        wait(sent)

    return {"Allreduce": lambda: all_reduce(comm, mine, other), "Irecv, Isend and two Waits": exchange}


figures = {}
for size, text, num in ((8, "8 B", 1000), (2048, "2 KiB", 500), (1 << 20, "1 MiB", 10)):
    for name, call in calls(watched, size).items():
        figures[f"{name}, {text}"] = added(call, calls(plain, size)[name], calls=num, pairs=PAIRS)
print(json.dumps(figures), flush=True)
