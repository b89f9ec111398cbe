"""Watches the calls by which two jobs meet: Spawn and its kin, Accept and Connect, and what a spawned rank finds.

Each is a collective of the communicator on its own side. Its root also says when it met another job and what both know
of it, by which the judge can tell who has met whom: the command that was spawned, or the port.
"""

from __future__ import annotations

import functools
import itertools
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.rank.mpi.mpi_constants import number_or_outsider
from paceline.guard.rank.mpi.mpi_module import MpiWatch
from paceline.guard.rank.mpi.replaced_methods import named_like
from paceline.guard.rank.mpi.sides.mpi_halves import follow_bridge
from paceline.guard.rank.watched_calls import CALLED_BY_HELPER, make_blocked_call
from paceline.guard.rank.watched_process import SESSION, identity_of
from paceline.guard.shared_memory.operations import BY_NAME
from paceline.process.procfs import start_time

# where the root stands, the communicator being number 0
_ROOT_AT = {"Spawn": 5, "Spawn_multiple": 5, "Accept": 3, "Connect": 3}
PARENT = "Get_parent"  # the side of those that were spawned
_TICKS = os.sysconf("SC_CLK_TCK")

_times_met = itertools.count(1)
_times_connected: dict[tuple[Any, ...], int] = {}  # sides -> how often parts of this job have met each other


def watched_meeting_of_jobs(function: Any, watch: MpiWatch) -> Any:
    """Return the watched form of Spawn, Accept and the like: a collective of the communicator on this side."""
    # what counts handles (mpi_handles.py) stands between this function and the user's
    name = function.__name__
    code, root_at = BY_NAME[name].code, _ROOT_AT[name]

    def call(*args: Any, **named: Any) -> Any:
        communicator, recorder = watch.communicators.get(watch.handle_of(args[0])), SESSION.recorder
        if recorder is None:
            return function(*args, **named)
        try:
            given = named["root"] if "root" in named else args[root_at] if len(args) > root_at else 0
            root, marks = number_or_outsider(given), _marks(name, args, named)
        except TypeError:  # wrong arguments: mpi4py says so better
            return function(*args, **named)
        size, member = watch.mpi.Comm.Get_size(args[0]), watch.mpi.Comm.Get_rank(args[0])
        if communicator is None and size > 1:
            return function(*args, **named)
        make, bridge = function, ""
        if communicator is None:  # COMM_SELF or its like, on which nobody waits for another rank of this job
            bridge = identity_of("alone", os.getpid(), next(_times_met))
        else:
            number = recorder.begin_collective(communicator, code, root, depth=CALLED_BY_HELPER)
            bridge = identity_of(communicator.identity, recorder.position(communicator))
            make = functools.partial(_make_recorded, recorder, number, function)
        meeting = _ToldMeeting(recorder, bridge)
        if member == root:
            meeting.begin(name, size, marks)
        new = None
        try:
            new = make(*args, **named)
        finally:
            if member == root:
                meeting.end(new.Get_remote_size() if new else 0)
        _follow(watch, new, bridge, name)
        return new

    return named_like(call, function)


def _make_recorded(recorder: Recorder, number: int, function: Any, *args: Any, **named: Any) -> Any:
    return make_blocked_call(recorder, number, function, args, named)


class _ToldMeeting:
    """One meeting with another job, as the root of this side tells of it."""

    def __init__(self, recorder: Recorder, bridge: str) -> None:
        self._recorder = recorder
        self._text = {"meeting": bridge, "side": recorder.world_of("mpi")}

    def begin(self, kind: str, size: int, marks: Sequence[str], begun_ns: int | None = None) -> None:
        """Say that this side may meet another: before it does, so that nobody is seen whom it may have met."""
        begun = time.monotonic_ns() if begun_ns is None else begun_ns
        text = {"kind": kind, "begun": begun, "size": size, "marks": list(marks)}
        self._recorder.ring.write_text({**self._text, **text})

    def end(self, num_others: int) -> None:
        """Say how many it has met, or 0 if the call has failed."""
        self._recorder.ring.write_text({**self._text, "ended": time.monotonic_ns(), "others": num_others})


def _marks(name: str, args: tuple[Any, ...], named: dict[str, Any]) -> list[str]:
    """Return what the other job will know as well. No text: command lines may hold secrets."""

    def given(at: int, argument: str, default: Any = None) -> Any:
        return named[argument] if argument in named else args[at] if len(args) > at else default

    if name in ("Accept", "Connect"):
        return [identity_of(str(given(1, "port_name")))]
    command, arguments = given(1, "command"), given(2, "args")
    if name == "Spawn":
        return [_mark_of_command([command, *(arguments or ())])]
    lists = arguments if arguments is not None else [()] * len(command)
    return [_mark_of_command([one, *(own or ())]) for one, own in zip(command, lists, strict=False)]


def _mark_of_command(words: Sequence[Any]) -> str:
    return identity_of([os.fsencode(word) for word in words])


def _follow(watch: MpiWatch, new: Any, bridge: str, name: str) -> None:
    if not new:
        return
    sides = watch.sides(new)
    if any(rank < 0 for side in sides for rank in side):
        follow_bridge(watch, new, bridge, name, is_first=name != "Connect")
        return
    # both sides are parts of this job, so all is known of them
    key = tuple(sorted(sides))
    _times_connected[key] = _times_connected.get(key, 0) + 1
    watch.adopt_sides(new, ("Accept", _times_connected[key]), name)


def follow_parents(watch: MpiWatch, recorder: Recorder) -> None:
    """Follow the intercommunicator with the ranks that have spawned this one."""
    mpi = watch.mpi
    parents = mpi.Comm.Get_parent()
    bridge = identity_of(PARENT, recorder.world_of("mpi"))
    follow_bridge(watch, parents, bridge, PARENT, is_first=False)
    if mpi.Comm.Get_rank(parents) == 0:
        words = Path("/proc/self/cmdline").read_bytes().split(b"\0")[:-1]
        meeting = _ToldMeeting(recorder, bridge)
        # a command with `#!` in its first line is started by another one, which is then the first word
        marks = [_mark_of_command(words), _mark_of_command(words[1:])]
        meeting.begin(PARENT, mpi.COMM_WORLD.Get_size(), marks, _own_start())
        meeting.end(parents.Get_remote_size())


def _own_start() -> int:
    """Return when this process was started, by the clock of records."""
    since_boot = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns()
    return start_time(os.getpid()) * 1_000_000_000 // _TICKS - since_boot
