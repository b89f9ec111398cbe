"""Watches mpi4py: communicators that record each call before it runs and are otherwise what they were.

mpi4py's classes cannot be changed but can be derived from, so the module's communicators are replaced by watched ones.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any

from paceline.guard.rank.call_sites import current_frames
from paceline.guard.rank.mpi.lookalike import LookalikeMeta, named_like
from paceline.guard.rank.mpi.mpi_collectives import watched_collectives
from paceline.guard.rank.mpi.mpi_messages import watched_messages
from paceline.guard.rank.mpi.mpi_module import MpiWatch
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
    """Replace the communicators and requests of mpi4py's module by watched ones."""
    watch = MpiWatch(mpi)
    for name in ("Intracomm", "Cartcomm", "Graphcomm", "Distgraphcomm"):
        base = getattr(mpi, name)
        watch.classes[base] = _watched_class(base, watch)
        setattr(mpi, name, watch.classes[base])
    mpi.COMM_WORLD = _copy_handle(mpi.COMM_WORLD, watch)
    mpi.COMM_SELF = _copy_handle(mpi.COMM_SELF, watch)
    for name in ("Init", "Init_thread"):
        setattr(mpi, name, _joining_init(getattr(mpi, name), mpi))
    mpi.Finalize = _freeing_finalize(mpi.Finalize)
    if mpi.Is_initialized() and not mpi.Is_finalized():
        _join(mpi)


def _copy_handle(communicator: Any, watch: MpiWatch) -> Any:
    """Return a watched communicator of the same handle; the usual way of building one needs MPI to be initialised."""
    mpi = watch.mpi
    watched = watch.classes[type(communicator)]()
    ctypes.memmove(mpi._addressof(watched), mpi._addressof(communicator), mpi._sizeof(mpi.Comm))
    return watched


def _joining_init(function: Any, mpi: Any) -> Any:
    def init(*args: Any, **named: Any) -> Any:
        value = function(*args, **named)
        _join(mpi)
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


def _join(mpi: Any) -> None:
    """Become a rank of this MPI job."""
    world: Any = mpi.COMM_WORLD
    rank, size = world.Get_rank(), world.Get_size()
    if mpi.Comm.Get_parent() != mpi.COMM_NULL:
        return  # spawned by another job: it has a world of its own, and we cannot see the other one
    if SESSION.join("mpi", rank=rank, world_size=size, job=launcher_name(os.environ)) is not None:
        world._paceline = SESSION.world("mpi", rank, size)
        count_running_threads()


def _watched_class(base: Any, watch: MpiWatch) -> type:
    members: dict[str, Any] = {
        "_paceline": None,  # the Communicator, if it is followed
        "_paceline_base": base,
        "__module__": base.__module__,
        "__doc__": base.__doc__,
        "__new__": _watched_new(base),
        "__reduce__": _watched_reduce(base, watch.mpi),
        "Abort": _watched_abort(base.Abort),
        "Create_group": _watched_create_group(base.Create_group, watch),
    }
    members |= watched_collectives(base, watch)
    members |= watched_messages(base, watch)
    for name in _CREATES_COMMUNICATOR:
        if hasattr(base, name):
            members[name] = _watched_creation(getattr(base, name), name, watch)
    for name in ("Free", "Disconnect"):
        members[name] = _watched_free(getattr(base, name))
    return LookalikeMeta(base.__name__, (base,), members)


def _watched_new(base: Any) -> Any:
    def new(cls: Any, comm: Any = None) -> Any:
        """Make another object for a communicator; its calls are those of the same communicator."""
        communicator = base.__new__(cls, comm)
        communicator._paceline = getattr(comm, "_paceline", None)
        return communicator

    return new


def _watched_reduce(base: Any, mpi: Any) -> Any:
    def reduce(self: Any) -> Any:
        """Pickle as mpi4py does: the world by its name, others not at all."""
        return "COMM_WORLD" if self is mpi.COMM_WORLD else base(self).__reduce__()

    return reduce


def _watched_creation(function: Any, name: str, watch: MpiWatch) -> Any:
    code = BY_NAME[name].code

    def call(*args: Any, **named: Any) -> Any:
        communicator, recorder = args[0]._paceline, SESSION.recorder
        if communicator is None or recorder is None:
            return function(*args, **named)
        number = recorder.begin_collective(communicator, code, depth=CALLED_BY_WRAPPER)
        sequence = recorder.position(communicator)  # before the call: another thread may make the next one
        new = make_blocked_call(recorder, number, function, args, named)
        label = name if communicator.name == "WORLD" else f"{communicator.name}.{name}"
        return watch.adopt(new, communicator, sequence, label)

    return named_like(call, function)


def _watched_create_group(function: Any, watch: MpiWatch) -> Any:
    code = BY_NAME["Create_group"].code
    counts: dict[tuple[Any, ...], int] = {}  # (communicator, ranks, tag) -> how often it was called so

    def call(self: Any, group: Any, tag: int = 0) -> Any:
        communicator, recorder = self._paceline, SESSION.recorder
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
        return watch.adopt(new, meeting, 1, "Create_group")

    return named_like(call, function)


def _watched_free(function: Any) -> Any:
    def call(self: Any) -> Any:
        communicator, recorder = self._paceline, SESSION.recorder
        value = function(self)
        if communicator is not None and recorder is not None:
            recorder.give_up(communicator)
            self._paceline = None
        return value

    return named_like(call, function)


def _watched_abort(function: Any) -> Any:
    def call(self: Any, errorcode: int = 0) -> Any:
        if SESSION.recorder is not None:
            SESSION.tell({"abort": errorcode, "frames": current_frames()})
            SESSION.recorder.end(layout.ABORTS, errorcode)
        return function(self, errorcode)

    return named_like(call, function)
