"""Watches sessions of MPI: a program may use them instead of COMM_WORLD, and makes its communicators from their groups.

A process set that all processes have, mpi://WORLD, numbers them like COMM_WORLD. So a program that has only a session
joins its world by it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.rank.mpi.mpi_module import MpiWatch
from paceline.guard.rank.mpi.replaced_methods import named_like, own_method
from paceline.guard.rank.watched_calls import CALLED_BY_HELPER, make_blocked_call
from paceline.guard.rank.watched_process import SESSION, identity_of
from paceline.guard.shared_memory.operations import BY_NAME

_WORLD_SET = "mpi://WORLD"
_DEFAULT_TAG = "org.mpi4py"


def watched_sessions(watch: MpiWatch, join: Callable[[int, int], object]) -> dict[str, Any]:
    """Return the watched forms of the methods that begin and end a session; `join` gets rank and size of the world."""
    init, finalize = own_method(watch.mpi.Session, "Init"), own_method(watch.mpi.Session, "Finalize")
    num_open = 0

    def begin(*args: Any, **named: Any) -> Any:
        nonlocal num_open
        session = init(*args, **named)
        num_open += 1
        if watch.world_group is None and not watch.mpi.Is_initialized():
            watch.world_group = session.Create_group(_WORLD_SET)
            join(watch.world_group.Get_rank(), watch.world_group.Get_size())
        return session

    def end(self: Any) -> Any:
        nonlocal num_open
        num_open -= 1
        if num_open == 0:
            watch.forget_world_group()
        return finalize(self)

    return {"Init": classmethod(named_like(begin, init)), "Finalize": named_like(end, finalize)}


def watched_create_from_group(function: Any, watch: MpiWatch) -> Any:
    """Return the watched form of Create_from_group: its members meet on a communicator for this call alone."""
    counts: dict[object, int] = {}

    def call(*args: Any, **named: Any) -> Any:
        # what counts handles (mpi_handles.py) stands between this function and the user's
        group = named.get("group", args[1] if len(args) > 1 else None)
        tag = named.get("stringtag", args[2] if len(args) > 2 else _DEFAULT_TAG)
        recorder = SESSION.recorder
        if recorder is None or not isinstance(group, watch.mpi.Group) or group.Get_rank() < 0:
            return function(*args, **named)
        ranks = watch.job_ranks(group)
        identity = _next_identity(counts, "Create_from_group", ranks, tag)
        if any(rank < 0 for rank in ranks):
            return function(*args, **named)
        meeting = recorder.communicator(identity, "the members", ranks, group.Get_rank())
        if meeting is None:
            return function(*args, **named)
        new = _meet(recorder, meeting, "Create_from_group", function, args, named)
        watch.adopt(new, meeting, 1, "Create_from_group")
        return new

    return named_like(call, function)


def watched_create_from_groups(function: Any, watch: MpiWatch) -> Any:
    """Return the watched form of Create_from_groups, in which two groups meet."""
    counts: dict[object, int] = {}

    def call(*args: Any, **named: Any) -> Any:
        own = named.get("local_group", args[1] if len(args) > 1 else None)
        others = named.get("remote_group", args[3] if len(args) > 3 else None)
        tag = named.get("stringtag", args[5] if len(args) > 5 else _DEFAULT_TAG)
        recorder, kind = SESSION.recorder, watch.mpi.Group
        if recorder is None or not isinstance(own, kind) or not isinstance(others, kind) or own.Get_rank() < 0:
            return function(*args, **named)
        sides = tuple(sorted((watch.job_ranks(own), watch.job_ranks(others))))
        ranks = (*sides[0], *sides[1])
        identity = _next_identity(counts, "Create_from_groups", sides, tag)
        if any(rank < 0 for rank in ranks):
            return function(*args, **named)
        member = ranks.index(watch.job_ranks(own)[own.Get_rank()])
        meeting = recorder.communicator(identity, "the members", ranks, member)
        if meeting is None:
            return function(*args, **named)
        new = _meet(recorder, meeting, "Create_from_groups", function, args, named)
        watch.adopt_sides(new, (meeting.identity, 1), "Create_from_groups")
        return new

    return named_like(call, function)


def _next_identity(counts: dict[object, int], *parts: object) -> str:
    """Return a name that is the same on all members, and another one each time that they meet in this way."""
    counts[parts] = counts.get(parts, 0) + 1
    return identity_of(*parts, counts[parts])


def _meet(recorder: Recorder, meeting: Any, name: str, function: Any, args: Any, named: Any) -> Any:
    number = recorder.begin_collective(meeting, BY_NAME[name].code, depth=CALLED_BY_HELPER + 1)
    try:
        return make_blocked_call(recorder, number, function, args, named)
    finally:
        recorder.give_up(meeting)
