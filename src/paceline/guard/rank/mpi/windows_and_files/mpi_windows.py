"""Watches the windows of mpi4py: their making, fences and freeing, epochs between groups, and locks.

A window is followed like a communicator of its own. In an epoch between groups members give each other tokens: Post
gives one to each origin, Complete gives one to each target. Puts and gets are not recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.rank.communicator import Communicator
from paceline.guard.rank.mpi.mpi_constants import number_or_outsider
from paceline.guard.rank.mpi.mpi_module import MpiWatch
from paceline.guard.rank.mpi.replaced_methods import named_like, own_method
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


@dataclass(slots=True)
class _OpenEpochs:
    """The epochs of one window that this rank has open."""

    targets: _Group = ()  # of its Start
    origins: _Group = ()  # of its Post
    locks: dict[int, int] = field(default_factory=dict)  # member that is locked, or ANY for all -> kind of lock


class _Epochs:
    """The open epochs of all windows."""

    def __init__(self, watch: MpiWatch) -> None:
        self._mpi = watch.mpi
        self._by_window: dict[str, _OpenEpochs] = {}  # by identity

    def of(self, window: Communicator) -> _OpenEpochs:
        return self._by_window.setdefault(window.identity, _OpenEpochs())

    def members(self, made: Any, group: Any) -> _Group:
        """Return the members of a window that a group lists."""
        own = self._mpi.Win.Get_group(made)
        members = self._mpi.Group.Translate_ranks(group, range(group.Get_size()), own)
        own.Free()
        return tuple(member for member in members if member >= 0)

    def forget(self, identity: str) -> None:
        self._by_window.pop(identity, None)


def watched_windows(watch: MpiWatch) -> dict[str, Any]:
    """Return the watched forms of those methods of windows that may wait."""
    kind, epochs = watch.mpi.Win, _Epochs(watch)
    members: dict[str, Any] = {}
    for operation in WINDOW_CREATIONS:
        name = operation.removeprefix("Win.")
        if (function := own_method(kind, name)) is not None:
            members[name] = classmethod(_watched_creation(function, operation, watch))
    if (function := own_method(kind, "Free")) is not None:  # `free` calls it
        members["Free"] = watch.windows.watched_end(function, "Win.Free", epochs.forget)
    for name, watched in _WATCHED.items():
        if (function := own_method(kind, name)) is not None:
            members[name] = watched(function, watch, epochs)
    for name, (one_target, change) in _LOCKS.items():
        if (function := own_method(kind, name)) is not None:
            members[name] = _watched_lock(function, name, watch, epochs, one_target=one_target, change=change)
    return members


def _watched_creation(function: Any, operation: str, watch: MpiWatch) -> Any:
    code, followed, handle_of = BY_NAME[operation].code, watch.communicators.get, watch.handle_of
    place = {"Win.Create_dynamic": 1}.get(operation, 3)  # of the communicator among the arguments after the class

    def call(cls: Any, *args: Any, **named: Any) -> Any:
        comm, recorder = named.get("comm", args[place] if len(args) > place else None), SESSION.recorder
        communicator = followed(handle_of(comm)) if isinstance(comm, watch.mpi.Comm) else None
        if communicator is None or recorder is None:
            return function(cls, *args, **named)
        number = recorder.begin_collective(communicator, code, depth=CALLED_BY_HELPER)
        sequence = recorder.position(communicator)  # before the call: another thread may make the next one
        made = make_blocked_call(recorder, number, function, (cls, *args), named)
        watch.windows.follow(made, communicator, sequence, "Win")
        return made

    return named_like(call, function)


def _watched_fence(function: Any, watch: MpiWatch, epochs: _Epochs) -> Any:
    code, find = BY_NAME["Win.Fence"].code, watch.windows.find

    def call(self: Any, *args: Any, **named: Any) -> Any:
        window, recorder = find(self), SESSION.recorder
        if window is None or recorder is None:
            return function(self, *args, **named)
        number = recorder.begin_collective(window, code, depth=CALLED_BY_WRAPPER)
        return make_blocked_call(recorder, number, function, (self, *args), named)

    return named_like(call, function)


# Epochs between groups: Post and Wait at the targets, Start and Complete at the origins.


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


def _watched_post(function: Any, watch: MpiWatch, epochs: _Epochs) -> Any:
    """Return a Post, which does not wait."""
    find = watch.windows.find

    def call(self: Any, group: Any, *args: Any, **named: Any) -> Any:
        window, recorder = find(self), SESSION.recorder
        if window is None or recorder is None or not isinstance(group, watch.mpi.Group):
            return function(self, group, *args, **named)
        members = epochs.members(self, group)
        number = _begin_epoch_call(recorder, window, "Win.Post", members, COMPLETE_TOKEN)
        _give(recorder, window, GIVEN, members, POST_TOKEN)  # before the call: an origin may go on at once
        value = function(self, group, *args, **named)
        recorder.leave(number)
        epochs.of(window).origins = members
        return value

    return named_like(call, function)


def _watched_start(function: Any, watch: MpiWatch, epochs: _Epochs) -> Any:
    find = watch.windows.find

    def call(self: Any, group: Any, *args: Any, **named: Any) -> Any:
        window, recorder = find(self), SESSION.recorder
        if window is None or recorder is None or not isinstance(group, watch.mpi.Group):
            return function(self, group, *args, **named)
        members = epochs.members(self, group)
        number = _begin_epoch_call(recorder, window, "Win.Start", members, POST_TOKEN)
        value = make_call(recorder, number, function, (self, group, *args), named)
        epochs.of(window).targets = members
        return value

    return named_like(call, function)


def _watched_complete(function: Any, watch: MpiWatch, epochs: _Epochs) -> Any:
    find = watch.windows.find

    def call(self: Any) -> Any:
        window, recorder = find(self), SESSION.recorder
        if window is None or recorder is None:
            return function(self)
        open_epochs = epochs.of(window)
        members = open_epochs.targets
        number = _begin_epoch_call(recorder, window, "Win.Complete", members, POST_TOKEN)
        value = make_call(recorder, number, function, (self,), {})
        # only now: a library may tell the targets in any order, and the last of them may not have posted yet
        _give(recorder, window, GIVEN, members, COMPLETE_TOKEN)
        _give(recorder, window, TAKEN, members, POST_TOKEN)
        open_epochs.targets = ()
        return value

    return named_like(call, function)


def _watched_wait(function: Any, watch: MpiWatch, epochs: _Epochs) -> Any:
    find = watch.windows.find

    def call(self: Any) -> Any:
        window, recorder = find(self), SESSION.recorder
        if window is None or recorder is None:
            return function(self)
        open_epochs = epochs.of(window)
        members = open_epochs.origins
        number = _begin_epoch_call(recorder, window, "Win.Wait", members, COMPLETE_TOKEN)
        value = make_call(recorder, number, function, (self,), {})
        _give(recorder, window, TAKEN, members, COMPLETE_TOKEN)
        open_epochs.origins = ()
        return value

    return named_like(call, function)


def _watched_test(function: Any, watch: MpiWatch, epochs: _Epochs) -> Any:
    """Return a Test: it does not wait, but it may end the epoch."""
    find = watch.windows.find

    def call(self: Any) -> Any:
        window, recorder = find(self), SESSION.recorder
        value = function(self)
        if value and window is not None and recorder is not None:
            open_epochs = epochs.of(window)
            _give(recorder, window, TAKEN, open_epochs.origins, COMPLETE_TOKEN)
            open_epochs.origins = ()
        return value

    return named_like(call, function)


# Locks. A library may get a lock only when it is needed, so every call from Lock to Unlock may wait for it.


def _watched_lock(
    function: Any, name: str, watch: MpiWatch, epochs: _Epochs, *, one_target: bool, change: int
) -> Any:  # fmt: skip
    """Return a call that takes locks (change 1), gives them back (-1) or needs them (0), at one target or at all."""
    code, find, exclusive = BY_NAME[f"Win.{name}"].code, watch.windows.find, watch.mpi.LOCK_EXCLUSIVE

    def kind_of(args: Any, named: Any) -> int:
        if name != "Lock":
            return SHARED_LOCK
        lock_type = named.get("lock_type", args[2] if len(args) > 2 else exclusive)
        return EXCLUSIVE_LOCK if lock_type == exclusive else SHARED_LOCK

    def call(*args: Any, **named: Any) -> Any:
        window, recorder = find(args[0]), SESSION.recorder
        try:
            target = number_or_outsider(named["rank"] if "rank" in named else args[1]) if one_target else ANY
        except (TypeError, ValueError, IndexError):  # wrong arguments: mpi4py says so better
            return function(*args, **named)
        if window is None or recorder is None:
            return function(*args, **named)
        locks = epochs.of(window).locks
        kind = kind_of(args, named) if change > 0 else locks.get(target, SHARED_LOCK)
        number = recorder.begin_message(window.index, code, peer=target, tag=kind, depth=CALLED_BY_WRAPPER)
        value = make_call(recorder, number, function, args, named)
        if change and target >= ANY:
            recorder.messages.change(window, HELD, target, kind, change)
        if change > 0:
            locks[target] = kind
        elif change < 0:
            locks.pop(target, None)
        return value

    return named_like(call, function)


_WATCHED = {
    "Fence": _watched_fence,
    "Post": _watched_post,
    "Start": _watched_start,
    "Complete": _watched_complete,
    "Wait": _watched_wait,
    "Test": _watched_test,
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
