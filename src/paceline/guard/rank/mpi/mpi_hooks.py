"""Watches mpi4py: communicators that record each call before it runs and are otherwise what they were.

mpi4py's classes cannot be changed but can be derived from, so the module's communicators are replaced by watched ones.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any

from paceline.guard.rank.call_sites import current_frames
from paceline.guard.rank.mpi.lookalike import LikeBase, named_like
from paceline.guard.rank.mpi.mpi_collectives import watched_collectives
from paceline.guard.rank.mpi.mpi_messages import watched_messages
from paceline.guard.rank.mpi.mpi_module import MpiWatch
from paceline.guard.rank.thread_watch import count_running_threads
from paceline.guard.rank.watched_process import SESSION, InCall, identity_of, launcher_name
from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.operations import BY_NAME

_CREATES = (
    "Dup", "Dup_with_info", "Clone", "Split", "Split_type", "Create", "Create_cart", "Create_graph",
    "Create_dist_graph", "Create_dist_graph_adjacent", "Sub",
)  # fmt: skip


def watch_mpi(mpi: Any) -> None:
    """Replace the communicators and requests of mpi4py's module by watched ones."""
    watch = MpiWatch(mpi)
    for name in ("Intracomm", "Cartcomm", "Graphcomm", "Distgraphcomm"):
        base = getattr(mpi, name)
        watch.classes[base] = _derive(base, watch)
        setattr(mpi, name, watch.classes[base])
    mpi.COMM_WORLD = _same(mpi.COMM_WORLD, watch)
    mpi.COMM_SELF = _same(mpi.COMM_SELF, watch)
    for name in ("Init", "Init_thread"):
        setattr(mpi, name, _then_join(getattr(mpi, name), mpi))
    mpi.Finalize = _last(mpi.Finalize)
    if mpi.Is_initialized() and not mpi.Is_finalized():
        _join(mpi)


def _same(world: Any, watch: MpiWatch) -> Any:
    """Return a watched communicator of the same handle; the usual way of building one needs MPI to be initialised."""
    mpi = watch.mpi
    watched = watch.classes[type(world)]()
    ctypes.memmove(mpi._addressof(watched), mpi._addressof(world), mpi._sizeof(mpi.Comm))
    return watched


def _then_join(function: Any, mpi: Any) -> Any:
    def init(*args: Any, **named: Any) -> Any:
        value = function(*args, **named)
        _join(mpi)
        return value

    return init


def _last(function: Any) -> Any:
    def finalize() -> Any:
        if SESSION.recorder is not None:
            for communicator in list(SESSION.recorder.communicators.values()):
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


def _derive(base: Any, watch: MpiWatch) -> type:
    members: dict[str, Any] = {
        "_paceline": None,
        "__module__": base.__module__,
        "__doc__": base.__doc__,
        "__reduce__": _reduce(base, watch.mpi),
    }
    members |= watched_collectives(base, watch)
    members |= watched_messages(base, watch)
    members |= {name: _creation(getattr(base, name), name, watch) for name in _CREATES if hasattr(base, name)}
    members |= {name: _giving_up(getattr(base, name)) for name in ("Free", "Disconnect")}
    members["Abort"] = _abort(base.Abort)
    members["Create_group"] = _create_group(base.Create_group, watch)
    members["_paceline_base"] = base

    def new(cls: Any, comm: Any = None) -> Any:
        """Make another object for a communicator; it has the same calls behind it."""
        made = base.__new__(cls, comm)
        made._paceline = getattr(comm, "_paceline", None)
        return made

    members["__new__"] = new
    return LikeBase(base.__name__, (base,), members)


def _reduce(base: Any, mpi: Any) -> Any:
    def reduce(self: Any) -> Any:
        """Pickle as mpi4py does: the world by its name, others not at all."""
        return "COMM_WORLD" if self is mpi.COMM_WORLD else base(self).__reduce__()

    return reduce


def _creation(base: Any, name: str, watch: MpiWatch) -> Any:
    code = BY_NAME[name].code

    def call(self: Any, *args: Any, **named: Any) -> Any:
        comm, recorder = self._paceline, SESSION.recorder
        if comm is None or recorder is None:
            return base(self, *args, **named)
        number = recorder.begin_collective(comm, code)
        sequence = recorder.position(comm)
        with InCall(recorder, number):
            made = base(self, *args, **named)
        return watch.adopt(made, comm, sequence, f"{comm.name}.{name}" if comm.name != "WORLD" else name)

    return named_like(call, base)


def _create_group(base: Any, watch: MpiWatch) -> Any:
    code = BY_NAME["Create_group"].code
    counts: dict[tuple[Any, ...], int] = {}

    def call(self: Any, group: Any, tag: int = 0) -> Any:
        """Only the members of the group take part: they meet on a communicator that exists for this call."""
        comm, recorder = self._paceline, SESSION.recorder
        if comm is None or recorder is None or group.Get_rank() < 0:
            return base(self, group, tag)
        mpi = watch.mpi
        world_group = mpi.COMM_WORLD.Get_group()
        ranks = tuple(mpi.Group.Translate_ranks(group, range(group.Get_size()), world_group))
        world_group.Free()
        key = (comm.identity, ranks, tag)
        counts[key] = counts.get(key, 0) + 1
        identity = identity_of("Create_group", key, counts[key])
        meeting = recorder.communicator(identity, "Create_group", ranks, group.Get_rank())
        if meeting is None:
            return base(self, group, tag)
        number = recorder.begin_collective(meeting, code)
        with InCall(recorder, number):
            made = base(self, group, tag)
        return watch.adopt(made, meeting, 1, "Create_group")

    return named_like(call, base)


def _giving_up(base: Any) -> Any:
    def call(self: Any) -> Any:
        comm, recorder = self._paceline, SESSION.recorder
        value = base(self)
        if comm is not None and recorder is not None:
            recorder.give_up(comm)
            self._paceline = None
        return value

    return named_like(call, base)


def _abort(base: Any) -> Any:
    def call(self: Any, errorcode: int = 0) -> Any:
        if SESSION.recorder is not None:
            SESSION.tell({"abort": errorcode, "frames": current_frames()})
            SESSION.recorder.end(layout.ABORTS, errorcode)
        return base(self, errorcode)

    return named_like(call, base)
