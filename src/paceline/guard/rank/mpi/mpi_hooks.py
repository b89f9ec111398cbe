"""Watches mpi4py: the methods of its communicators and requests record each call before it runs.

They are replaced where they are (replaced_methods.py), so types and objects stay what they were. The handle tells which
communicator a call is made on, the object which request it waits for.
"""

from __future__ import annotations

import contextlib
import operator
import os
from typing import Any

from paceline.guard.rank.call_sites import current_frames
from paceline.guard.rank.mpi.mpi_collectives import watched_collectives
from paceline.guard.rank.mpi.mpi_messages import watched_messages, watched_probes_of_message
from paceline.guard.rank.mpi.mpi_module import MpiWatch
from paceline.guard.rank.mpi.mpi_requests import watched_requests
from paceline.guard.rank.mpi.replaced_methods import named_like, own_method, replace_methods
from paceline.guard.rank.thread_watch import count_running_threads
from paceline.guard.rank.watched_calls import CALLED_BY_WRAPPER, NO_NAMED, make_blocked_call
from paceline.guard.rank.watched_process import SESSION, identity_of, launcher_name
from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.operations import BY_NAME

_CREATES_COMMUNICATOR = (
    "Dup", "Dup_with_info", "Clone", "Split", "Split_type", "Create", "Create_cart", "Create_graph",
    "Create_dist_graph", "Create_dist_graph_adjacent", "Sub",
)  # fmt: skip


def watch_mpi(mpi: Any) -> None:
    """Replace the methods of mpi4py's communicators and requests by watched ones."""
    watch = MpiWatch(mpi)
    for name in ("Comm", "Intracomm", "Topocomm", "Cartcomm", "Graphcomm", "Distgraphcomm"):
        kind = getattr(mpi, name)
        replace_methods(kind, _watched_communicator(kind, watch))
    for kind in (mpi.Request, mpi.Prequest):
        replace_methods(kind, watched_requests(kind, watch.requests, mpi))
    replace_methods(mpi.Message, watched_probes_of_message(watch))
    for name in ("Init", "Init_thread"):
        setattr(mpi, name, _joining_init(getattr(mpi, name), watch))
    mpi.Finalize = _freeing_finalize(mpi.Finalize)
    if mpi.Is_initialized() and not mpi.Is_finalized():
        _join(watch)


def _joining_init(function: Any, watch: MpiWatch) -> Any:
    def init(*args: Any, **named: Any) -> Any:
        value = function(*args, **named)
        _join(watch)
        return value

    return named_like(init, function)


def _freeing_finalize(function: Any) -> Any:
    """Return a Finalize that first notes that this rank uses no communicator any more."""

    def finalize() -> Any:
        if SESSION.recorder is not None:
            for communicator in SESSION.recorder.communicators_of("mpi"):  # those of torch stay in use
                SESSION.recorder.give_up(communicator)
        return function()

    return named_like(finalize, function)


def _join(watch: MpiWatch) -> None:
    """Become a rank of this MPI job."""
    mpi = watch.mpi
    world = mpi.COMM_WORLD
    rank, size = world.Get_rank(), world.Get_size()
    if mpi.Comm.Get_parent() != mpi.COMM_NULL:
        return  # spawned by another job: it has a world of its own, and we cannot see the other one
    if SESSION.join("mpi", rank=rank, world_size=size, job=launcher_name(os.environ)) is not None:
        communicator = SESSION.world("mpi", rank, size)
        if communicator is not None:
            watch.communicators[watch.handle_of(world)] = communicator
        count_running_threads()


def _watched_communicator(kind: Any, watch: MpiWatch) -> dict[str, Any]:
    """Return the watched forms of those methods of a class of communicators that it defines."""
    members = watched_collectives(kind, watch) | watched_messages(kind, watch)
    others = dict.fromkeys(_CREATES_COMMUNICATOR, _watched_creation) | _WATCHED
    for name, watched in others.items():
        if (function := own_method(kind, name)) is not None:
            members[name] = watched(function, watch)
    return members


def _watched_creation(function: Any, watch: MpiWatch) -> Any:
    name = function.__name__
    code = BY_NAME[name].code
    followed, handle_of = watch.communicators.get, watch.handle_of

    def call(*args: Any, **named: Any) -> Any:
        communicator, recorder = followed(handle_of(args[0])), SESSION.recorder
        if communicator is None or recorder is None:
            return function(*args, **named)
        number = recorder.begin_collective(communicator, code, depth=CALLED_BY_WRAPPER)
        sequence = recorder.position(communicator)  # before the call: another thread may make the next one
        new = make_blocked_call(recorder, number, function, args, named)
        label = name if communicator.name == "WORLD" else f"{communicator.name}.{name}"
        watch.adopt(new, communicator, sequence, label)
        return new

    return named_like(call, function)


def _watched_create_group(function: Any, watch: MpiWatch) -> Any:
    code = BY_NAME["Create_group"].code
    followed, handle_of = watch.communicators.get, watch.handle_of
    counts: dict[tuple[Any, ...], int] = {}  # (communicator, ranks, tag) -> how often it was called so

    def call(self: Any, group: Any, tag: int = 0) -> Any:
        communicator, recorder = followed(handle_of(self)), SESSION.recorder
        if communicator is None or recorder is None or group.Get_rank() < 0:
            return function(self, group, tag)
        # Only the members of the group take part: they meet on a communicator that exists for this call alone.
        ranks = watch.job_ranks(group)
        key = (communicator.identity, ranks, tag)
        counts[key] = counts.get(key, 0) + 1
        identity = identity_of("Create_group", key, counts[key])
        meeting = recorder.communicator(identity, "Create_group", ranks, group.Get_rank())
        if meeting is None:
            return function(self, group, tag)
        number = recorder.begin_collective(meeting, code, depth=CALLED_BY_WRAPPER)
        new = make_blocked_call(recorder, number, function, (self, group, tag), NO_NAMED)
        watch.adopt(new, meeting, 1, "Create_group")
        return new

    return named_like(call, function)


def _watched_free(function: Any, watch: MpiWatch) -> Any:
    followed, handle_of = watch.communicators, watch.handle_of

    def call(self: Any) -> Any:
        handle = handle_of(self)
        # before the call: after it another thread may make a communicator that gets this handle
        communicator = followed.pop(handle, None)
        try:
            return function(self)
        finally:
            if communicator is not None:
                if handle_of(self) == handle:  # nothing was freed: MPI refused to, or it is there for ever
                    followed[handle] = communicator
                elif SESSION.recorder is not None:
                    SESSION.recorder.give_up(communicator)

    return named_like(call, function)


def _watched_abort(function: Any, watch: MpiWatch) -> Any:
    def call(self: Any, errorcode: Any = 0) -> Any:
        if SESSION.recorder is not None:
            with contextlib.suppress(TypeError):  # no whole number: mpi4py says so better
                code = operator.index(errorcode)
                SESSION.tell({"abort": code, "frames": current_frames()})
                SESSION.recorder.end(layout.ABORTS, code)
        return function(self, errorcode)

    return named_like(call, function)


_WATCHED = {
    "Create_group": _watched_create_group,
    "Free": _watched_free,
    "Disconnect": _watched_free,
    "Abort": _watched_abort,
}
