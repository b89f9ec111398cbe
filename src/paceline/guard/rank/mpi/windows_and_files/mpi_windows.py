"""Watches the windows of mpi4py: their making, fences and freeing, epochs between groups, and locks.

A window is followed like a communicator of its own. In an epoch between groups members give each other tokens: Post
gives one to each origin, Complete gives one to each target. What is done within epochs is in mpi_accesses.py.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.rank.communicator import Communicator
from paceline.guard.rank.mpi.mpi_constants import number_or_outsider
from paceline.guard.rank.mpi.mpi_module import MpiWatch
from paceline.guard.rank.mpi.replaced_methods import named_like, own_method
from paceline.guard.rank.mpi.windows_and_files.mpi_accesses import watched_accesses
from paceline.guard.rank.mpi.windows_and_files.window_logs import WindowLogs
from paceline.guard.rank.remarks.window_log import WindowLog
from paceline.guard.rank.watched_calls import CALLED_BY_HELPER, CALLED_BY_WRAPPER, make_blocked_call, make_call
from paceline.guard.rank.watched_process import SESSION, identity_of
from paceline.guard.shared_memory.layout import (
    ANY,
    COMPLETE_TOKEN,
    EXCLUSIVE_LOCK,
    GIVEN,
    HELD,
    POST_TOKEN,
    SHARED_LOCK,
    TAKEN,
)
from paceline.guard.shared_memory.operations import BY_NAME, WINDOW_CREATIONS

_Group = tuple[int, ...]  # members of a window


def watched_windows(watch: MpiWatch, logs: WindowLogs) -> dict[str, Any]:
    """Return the watched forms of those methods of windows that may wait, or reach for memory."""
    kind = watch.mpi.Win
    members: dict[str, Any] = watched_accesses(watch, logs)
    for operation in WINDOW_CREATIONS:
        name = operation.removeprefix("Win.")
        if (function := own_method(kind, name)) is not None:
            members[name] = classmethod(_watched_creation(function, operation, watch, logs))
    if (function := own_method(kind, "Free")) is not None:  # `free` calls it
        members["Free"] = watch.windows.watched_end(function, "Win.Free", logs.close)
    for name, watched in _WATCHED.items():
        if (function := own_method(kind, name)) is not None:
            members[name] = watched(function, watch, logs)
    for name, (one_target, change) in _LOCKS.items():
        if (function := own_method(kind, name)) is not None:
            members[name] = _watched_lock(function, name, watch, logs, one_target=one_target, change=change)
    return members


def _watched_creation(function: Any, operation: str, watch: MpiWatch, logs: WindowLogs) -> Any:
    code, followed, handle_of = BY_NAME[operation].code, watch.communicators.get, watch.handle_of
    is_dynamic = operation == "Win.Create_dynamic"  # its memory is attached later, and found by addresses
    place = 1 if is_dynamic else 3  # of the communicator among the arguments after the class

    def call(cls: Any, *args: Any, **named: Any) -> Any:
        comm, recorder = named.get("comm", args[place] if len(args) > place else None), SESSION.recorder
        communicator = followed(handle_of(comm)) if isinstance(comm, watch.mpi.Comm) else None
        if communicator is None or recorder is None:
            return function(cls, *args, **named)
        number = recorder.begin_collective(communicator, code, depth=CALLED_BY_HELPER)
        sequence = recorder.position(communicator)  # before the call: another thread may make the next one
        made = make_blocked_call(recorder, number, function, (cls, *args), named)
        watch.windows.follow(made, communicator, sequence, "Win")
        logs.open(made, communicator, has_memory=not is_dynamic)
        return made

    return named_like(call, function)


def _watched_fence(function: Any, watch: MpiWatch, logs: WindowLogs) -> Any:
    code, find, ends_all = BY_NAME["Win.Fence"].code, watch.windows.find, watch.mpi.MODE_NOSUCCEED

    def call(self: Any, *args: Any, **named: Any) -> Any:
        window, recorder = find(self), SESSION.recorder
        if window is None or recorder is None:
            return function(self, *args, **named)
        number = recorder.begin_collective(window, code, depth=CALLED_BY_WRAPPER)
        logs.settle()
        log, assertion = logs.find(self), named.get("assertion", args[0] if args else 0)
        if log is not None:
            opens = not (isinstance(assertion, int) and assertion & ends_all)
            logs.unless_it_fails(log, log.fence, opens=opens)
        return make_blocked_call(recorder, number, function, (self, *args), named)

    return named_like(call, function)


# Epochs between groups: Post and Wait at the targets, Start and Complete at the origins.


def _members_of(watch: MpiWatch, made: Any, group: Any) -> _Group:
    """Return the members of a window that a group lists."""
    own = watch.mpi.Win.Get_group(made)
    members = watch.mpi.Group.Translate_ranks(group, range(group.Get_size()), own)
    own.Free()
    return tuple(member for member in members if member >= 0)


def _give(recorder: Recorder, window: Communicator, direction: int, members: Sequence[int], token: int) -> None:
    for member in members:
        recorder.messages.change(window, direction, member, token, 1)


def _begin_epoch_call(recorder: Recorder, window: Communicator, name: str, members: _Group, token: int) -> int:
    """Record a call that waits for a token of each of these members."""
    stands_for = int(identity_of("epoch", members)[:12], 16)
    recorder.tell_group(stands_for, members)
    return recorder.begin_message(
        window.index, BY_NAME[name].code, tag=token, members_hash=stands_for, depth=CALLED_BY_HELPER
    )  # fmt: skip


def _watched_post(function: Any, watch: MpiWatch, logs: WindowLogs) -> Any:
    """Return a Post, which does not wait."""
    find = watch.windows.find

    def call(self: Any, group: Any, *args: Any, **named: Any) -> Any:
        window, recorder, log = find(self), SESSION.recorder, logs.find(self)
        if window is None or recorder is None or log is None or not isinstance(group, watch.mpi.Group):
            return function(self, group, *args, **named)
        members = _members_of(watch, self, group)
        number = _begin_epoch_call(recorder, window, "Win.Post", members, COMPLETE_TOKEN)
        _give(recorder, window, GIVEN, members, POST_TOKEN)  # before the call: an origin may go on at once
        value = function(self, group, *args, **named)
        recorder.leave(number)
        log.epochs.post(members)
        return value

    return named_like(call, function)


def _watched_start(function: Any, watch: MpiWatch, logs: WindowLogs) -> Any:
    find = watch.windows.find

    def call(self: Any, group: Any, *args: Any, **named: Any) -> Any:
        window, recorder, log = find(self), SESSION.recorder, logs.find(self)
        if window is None or recorder is None or log is None or not isinstance(group, watch.mpi.Group):
            return function(self, group, *args, **named)
        members = _members_of(watch, self, group)
        number = _begin_epoch_call(recorder, window, "Win.Start", members, POST_TOKEN)
        value = make_call(recorder, number, function, (self, group, *args), named)
        log.epochs.start(members)
        return value

    return named_like(call, function)


def _end_started(recorder: Recorder, window: Communicator, log: WindowLog) -> None:
    # only now: a library may tell the targets in any order, and the last of them may not have posted yet
    _give(recorder, window, GIVEN, log.epochs.targets, COMPLETE_TOKEN)
    _give(recorder, window, TAKEN, log.epochs.targets, POST_TOKEN)
    log.epochs.targets = ()


def _end_posted(recorder: Recorder, window: Communicator, log: WindowLog) -> None:
    _give(recorder, window, TAKEN, log.epochs.origins, COMPLETE_TOKEN)
    log.compare_origins()
    log.epochs.origins = ()


def _watched_end_of_epoch(name: str) -> Callable[[Any, MpiWatch, WindowLogs], Any]:
    """Return what makes the watched form of Complete, or of Wait."""
    is_origin = name == "Win.Complete"
    token, end = (POST_TOKEN, _end_started) if is_origin else (COMPLETE_TOKEN, _end_posted)

    def watched(function: Any, watch: MpiWatch, logs: WindowLogs) -> Any:
        find = watch.windows.find

        def call(self: Any) -> Any:
            window, recorder, log = find(self), SESSION.recorder, logs.find(self)
            if window is None or recorder is None or log is None:
                return function(self)
            members = log.epochs.targets if is_origin else log.epochs.origins
            number = _begin_epoch_call(recorder, window, name, members, token)
            if is_origin:
                logs.unless_it_fails(
                    log, log.complete_started
                )  # before the call: the targets compare as soon as it has been made
            value = make_call(recorder, number, function, (self,), {})
            logs.unless_it_fails(log, end, recorder, window, log)
            return value

        return named_like(call, function)

    return watched


def _watched_test(function: Any, watch: MpiWatch, logs: WindowLogs) -> Any:
    """Return a Test: it does not wait, but it may end the epoch."""
    find = watch.windows.find

    def call(self: Any) -> Any:
        window, recorder, log = find(self), SESSION.recorder, logs.find(self)
        value = function(self)
        if value and window is not None and recorder is not None and log is not None:
            logs.unless_it_fails(log, _end_posted, recorder, window, log)
        return value

    return named_like(call, function)


def _watched_sync(function: Any, watch: MpiWatch, logs: WindowLogs) -> Any:
    """Return a Sync, by which a rank may see in its own memory what others have done."""

    def call(self: Any) -> Any:
        log = logs.find(self)
        if log is not None:
            logs.unless_it_fails(log, log.synchronise)
        return function(self)

    return named_like(call, function)


# Locks. A library may get a lock only when it is needed, so every call from Lock to Unlock may wait for it.


def _watched_lock(
    function: Any, name: str, watch: MpiWatch, logs: WindowLogs, *, one_target: bool, change: int
) -> Any:  # fmt: skip
    """Return a call that takes locks (change 1), gives them back (-1) or needs them (0), at one target or at all."""
    code, find, exclusive = BY_NAME[f"Win.{name}"].code, watch.windows.find, watch.mpi.LOCK_EXCLUSIVE
    only_here = name in ("Flush_local", "Flush_local_all")

    def kind_of(args: Any, named: Any) -> int:
        if name != "Lock":
            return SHARED_LOCK
        lock_type = named.get("lock_type", args[2] if len(args) > 2 else exclusive)
        return EXCLUSIVE_LOCK if lock_type == exclusive else SHARED_LOCK

    def call(*args: Any, **named: Any) -> Any:
        window, recorder, log = find(args[0]), SESSION.recorder, logs.find(args[0])
        try:
            target = number_or_outsider(named["rank"] if "rank" in named else args[1]) if one_target else ANY
        except (TypeError, ValueError, IndexError):  # wrong arguments: mpi4py says so better
            return function(*args, **named)
        if window is None or recorder is None or log is None:
            return function(*args, **named)
        logs.settle()
        kind = kind_of(args, named) if change > 0 else log.epochs.locks.get(target, SHARED_LOCK)
        number = recorder.begin_message(window.index, code, peer=target, tag=kind, depth=CALLED_BY_WRAPPER)
        value = make_call(recorder, number, function, args, named)
        if change and target >= ANY:
            recorder.messages.change(window, HELD, target, kind, change)
        if change <= 0:
            logs.unless_it_fails(log, log.complete_locked, target, only_here=only_here)
        if change > 0:
            log.epochs.lock(target, kind, recorder.remarks.site_of(sys._getframe(1)))
        elif change < 0:
            log.epochs.unlock(target)
        return value

    return named_like(call, function)


_WATCHED: dict[str, Callable[[Any, MpiWatch, WindowLogs], Any]] = {
    "Fence": _watched_fence,
    "Post": _watched_post,
    "Start": _watched_start,
    "Complete": _watched_end_of_epoch("Win.Complete"),
    "Wait": _watched_end_of_epoch("Win.Wait"),
    "Test": _watched_test,
    "Sync": _watched_sync,
}
# name -> whether it names one target, and whether it takes locks, gives them back or does neither
_LOCKS = {
    "Lock": (True, 1),
    "Unlock": (True, -1),
    "Lock_all": (False, 1),
    "Unlock_all": (False, -1),
    "Flush": (True, 0),
    "Flush_local": (True, 0),
    "Flush_all": (False, 0),
    "Flush_local_all": (False, 0),
}
