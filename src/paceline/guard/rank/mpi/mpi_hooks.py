"""Watches mpi4py: the methods of communicators, requests, windows and files record each call before it runs.

They are replaced where they are (replaced_methods.py), so types and objects stay what they were. The handle tells which
communicator a call is made on, the object which request it waits for.
"""

from __future__ import annotations

import contextlib
import functools
import operator
import os
from typing import Any

from paceline.guard.rank.call_sites import current_frames
from paceline.guard.rank.communicator import Communicator
from paceline.guard.rank.mpi.compiled_calls import CompiledCalls
from paceline.guard.rank.mpi.messages.mpi_messages import watched_messages, watched_probes_of_message
from paceline.guard.rank.mpi.mpi_collectives import watched_collectives
from paceline.guard.rank.mpi.mpi_handles import MpiHandles
from paceline.guard.rank.mpi.mpi_module import WATCHES, MpiWatch
from paceline.guard.rank.mpi.mpi_requests import watched_requests
from paceline.guard.rank.mpi.mpi_sessions import watched_create_from_group, watched_create_from_groups, watched_sessions
from paceline.guard.rank.mpi.replaced_methods import named_like, own_method, replace_methods
from paceline.guard.rank.mpi.sides.mpi_bridges import watched_create_intercomm, watched_end
from paceline.guard.rank.mpi.sides.mpi_halves import follow_made_from
from paceline.guard.rank.mpi.sides.mpi_meetings import follow_parents, watched_meeting_of_jobs
from paceline.guard.rank.mpi.sides.spawned_world import name_of_spawned
from paceline.guard.rank.mpi.windows_and_files.mpi_files import watched_files
from paceline.guard.rank.mpi.windows_and_files.mpi_windows import watched_windows
from paceline.guard.rank.mpi.windows_and_files.window_logs import WindowLogs
from paceline.guard.rank.posted_request import PostedCreation
from paceline.guard.rank.thread_watch import count_running_threads
from paceline.guard.rank.watched_calls import CALLED_BY_HELPER, NO_NAMED, make_blocked_call, post_request
from paceline.guard.rank.watched_process import SESSION, identity_of, initialising_mpi, launcher_name
from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.operations import BY_NAME, MEETINGS_OF_JOBS

_CREATES_COMMUNICATOR = (
    "Dup", "Dup_with_info", "Clone", "Split", "Split_type", "Create", "Create_cart", "Create_graph",
    "Create_dist_graph", "Create_dist_graph_adjacent", "Sub", "Merge",
)  # fmt: skip


def watch_mpi(mpi: Any) -> None:
    """Replace the methods of mpi4py's communicators, requests, windows and files by watched ones."""
    watch = MpiWatch(mpi)
    WATCHES.append(watch)
    compiled = CompiledCalls(watch)
    for name in ("Comm", "Intracomm", "Intercomm", "Topocomm", "Cartcomm", "Graphcomm", "Distgraphcomm"):
        kind = getattr(mpi, name)
        replace_methods(kind, _watched_communicator(kind, watch, compiled))
    for kind in (mpi.Request, mpi.Prequest):
        replace_methods(kind, watched_requests(kind, watch.requests, mpi, compiled))
    replace_methods(mpi.Message, watched_probes_of_message(watch))
    for kind, name, watched in (
        (mpi.Intracomm, "Create_from_group", watched_create_from_group),
        (mpi.Intercomm, "Create_from_groups", watched_create_from_groups),
    ):
        if (function := own_method(kind, name)) is not None:  # mpi4py 3 has no sessions
            replace_methods(kind, {name: classmethod(watched(function, watch))})
    if hasattr(mpi, "Session"):
        replace_methods(mpi.Session, watched_sessions(watch, lambda rank, size: _enter(watch, rank, size)))
    window_logs = WindowLogs(watch)
    watch.left = lambda: [*watch.requests.left(), *window_logs.left()]
    replace_methods(mpi.Win, watched_windows(watch, window_logs))
    replace_methods(mpi.File, watched_files(watch))
    for name in ("Init", "Init_thread"):
        setattr(mpi, name, _joining_init(getattr(mpi, name), watch))
    mpi.Finalize = _freeing_finalize(mpi.Finalize)
    watch.handles = MpiHandles(mpi)
    if mpi.Is_initialized() and not mpi.Is_finalized():
        _join(watch)


def _joining_init(function: Any, watch: MpiWatch) -> Any:
    def init(*args: Any, **named: Any) -> Any:
        with initialising_mpi():
            value = function(*args, **named)
        _join(watch)
        return value

    return named_like(init, function)


def _freeing_finalize(function: Any) -> Any:
    """Return a Finalize that first notes that this rank uses no communicator any more."""

    def finalize() -> Any:
        if SESSION.recorder is not None:
            SESSION.tell({"finalized": True, "frames": current_frames()})
            SESSION.recorder.remarks.finish("mpi")
            for communicator in SESSION.recorder.communicators_of("mpi"):  # those of torch stay in use
                SESSION.recorder.give_up(communicator)
        return function()

    return named_like(finalize, function)


def _join(watch: MpiWatch) -> None:
    """Become a rank of this MPI job."""
    mpi = watch.mpi
    world = mpi.COMM_WORLD
    rank, size = world.Get_rank(), world.Get_size()
    watch.forget_world_group()
    job, name = launcher_name(os.environ), "WORLD"
    is_spawned = mpi.Comm.Get_parent() != mpi.COMM_NULL
    if is_spawned:
        spawned = name_of_spawned(os.environ)
        if spawned is None:
            return
        job, name = f"{job} {spawned}", "the spawned WORLD"
    communicator = _enter(watch, rank, size, job, name)
    if communicator is not None:
        watch.communicators[watch.handle_of(world)] = communicator
    if is_spawned and SESSION.recorder is not None:
        follow_parents(watch, SESSION.recorder)


def _enter(watch: MpiWatch, rank: int, size: int, job: str | None = None, name: str = "WORLD") -> Communicator | None:
    """Become a rank of the job; return the communicator of all."""
    is_new = SESSION.recorder is None or SESSION.recorder.world_of("mpi") is None
    if SESSION.join("mpi", rank=rank, world_size=size, job=job or launcher_name(os.environ)) is None:
        return None
    assert SESSION.recorder is not None
    if is_new:
        count_running_threads()
        SESSION.recorder.remarks.ask_at_end("mpi", watch.left)
        watch.look_at_uses(SESSION.recorder)
        if watch.handles is not None:
            watch.handles.join(SESSION.recorder.remarks)
    return SESSION.world("mpi", rank, size, name)


def _watched_communicator(kind: Any, watch: MpiWatch, compiled: CompiledCalls) -> dict[str, Any]:
    """Return the watched forms of those methods of a class of communicators that it defines."""
    members = watched_collectives(kind, watch, compiled) | watched_messages(kind, watch, compiled)
    others = dict.fromkeys(_CREATES_COMMUNICATOR, _watched_creation) | _WATCHED
    for name, watched in others.items():
        if (function := own_method(kind, name)) is not None:
            members[name] = watched(function, watch)
    return members


def _watched_creation(function: Any, watch: MpiWatch) -> Any:
    # what counts handles (mpi_handles.py) stands between this function and the user's
    name = function.__name__
    code = BY_NAME[name].code

    def call(*args: Any, **named: Any) -> Any:
        communicator, recorder = watch.find(args[0]), SESSION.recorder
        if communicator is None or recorder is None:
            return function(*args, **named)
        number = recorder.begin_collective(communicator, code, depth=CALLED_BY_HELPER)
        sequence = recorder.position(communicator)  # before the call: another thread may make the next one
        new = make_blocked_call(recorder, number, function, args, named)
        label = name if communicator.name == "WORLD" else f"{communicator.name}.{name}"
        _follow_new(watch, new, args[0], communicator, sequence, label)
        return new

    return named_like(call, function)


def _follow_new(watch: MpiWatch, new: Any, on: Any, communicator: Communicator, sequence: int, label: str) -> None:
    if communicator.half is None:
        watch.adopt(new, communicator, sequence, label)
    else:
        follow_made_from(watch, new, on, communicator, sequence, label)


def _watched_later_creation(function: Any, watch: MpiWatch) -> Any:
    """Return the watched form of Idup: the communicator that it returns is there once its request has completed."""
    name = function.__name__
    code = BY_NAME[name].code

    def call(*args: Any, **named: Any) -> Any:
        communicator, recorder = watch.find(args[0]), SESSION.recorder
        if communicator is None or recorder is None:
            return function(*args, **named)
        made: list[Any] = []

        def make(*args: Any, **named: Any) -> Any:
            made[:] = function(*args, **named)
            return made[1]

        request = recorder.requests.take()
        number = recorder.begin_collective(communicator, code, flags=layout.NONBLOCKING, request=request)
        sequence = recorder.position(communicator)
        request_made = post_request(recorder, number, request, make, args, named, active=True)
        on, new = args[0], made[0]
        label = name if communicator.name == "WORLD" else f"{communicator.name}.{name}"
        then = functools.partial(_follow_new, watch, new, on, communicator, sequence, label)
        return new, watch.requests.follow(request_made, PostedCreation(recorder, request, number, then))

    return named_like(call, function)


def _watched_create_group(function: Any, watch: MpiWatch) -> Any:
    code = BY_NAME["Create_group"].code
    followed, handle_of = watch.communicators.get, watch.handle_of
    counts: dict[tuple[Any, ...], int] = {}  # (communicator, ranks, tag) -> how often it was called so

    def call(self: Any, group: Any, tag: int = 0) -> Any:
        communicator, recorder = followed(handle_of(self)), SESSION.recorder
        if communicator is None or communicator.half is not None or recorder is None or group.Get_rank() < 0:
            return function(self, group, tag)
        # Only the members of the group take part: they meet on a communicator that exists for this call alone.
        ranks = watch.job_ranks(group)
        key = (communicator.identity, ranks, tag)
        counts[key] = counts.get(key, 0) + 1
        identity = identity_of("Create_group", key, counts[key])
        meeting = recorder.communicator(identity, "Create_group", ranks, group.Get_rank())
        if meeting is None:
            return function(self, group, tag)
        number = recorder.begin_collective(meeting, code, depth=CALLED_BY_HELPER)
        new = make_blocked_call(recorder, number, function, (self, group, tag), NO_NAMED)
        watch.adopt(new, meeting, 1, "Create_group")
        return new

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
    "Idup": _watched_later_creation,
    "Idup_with_info": _watched_later_creation,
    "Create_intercomm": watched_create_intercomm,
    "Free": watched_end,
    "free": watched_end,
    "Disconnect": watched_end,
    **dict.fromkeys(MEETINGS_OF_JOBS, watched_meeting_of_jobs),
    "Abort": _watched_abort,
}
