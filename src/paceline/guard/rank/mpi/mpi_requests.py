"""Watches mpi4py's requests: who posted them, and which of them a rank waits for."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.rank.communicator import Communicator
from paceline.guard.rank.mpi.lookalike import LikeBase, named_like
from paceline.guard.rank.watched_process import SESSION, InCall
from paceline.guard.shared_memory.layout import ANY, RECEIVED, SENT
from paceline.guard.shared_memory.operations import BY_NAME


class Posted:
    """What is known of a request that was posted."""

    __slots__ = ("on_start", "receives", "record", "recorder", "request")

    def __init__(self, *, recorder: Recorder, request: int, record: int) -> None:
        self.recorder, self.request, self.record = recorder, request, record
        self.receives: tuple[Communicator, int, int, int, int] | None = None  # comm, peer, tag, n-th, size
        self.on_start: tuple[Communicator, int, int, int] | None = None  # comm, direction, peer, tag

    def complete(self, status: Any) -> None:
        """Note that the request has completed."""
        if self.recorder is not SESSION.recorder:
            return  # a forked child
        if self.receives is not None:
            comm, peer, tag, nth, size = self.receives
            self.recorder.messages.expect(comm, peer, tag, -1)
            if (peer == ANY or tag == ANY) and status is not None:
                peer, tag = status.Get_source(), status.Get_tag()
            if peer >= 0 and tag >= 0:
                self.recorder.messages.count(comm, RECEIVED, peer, tag)
            if nth:
                self.recorder.messages.check(self.record, comm, peer, tag, nth, size)
        if self.on_start is not None:
            self.recorder.requests.activate(self.request, posted=False)
        else:
            self.release()

    def start(self) -> None:
        """Note that a persistent request was started."""
        if self.recorder is SESSION.recorder and self.on_start is not None:
            comm, direction, peer, tag = self.on_start
            if direction == SENT and peer >= 0:
                self.recorder.messages.count(comm, SENT, peer, tag)
            elif direction == RECEIVED:
                self.recorder.messages.expect(comm, peer, tag, 1)
            self.recorder.requests.activate(self.request, posted=True)

    def __del__(self) -> None:
        if self.request and not sys.is_finalizing():  # nobody can wait for it any more
            self.release()

    def release(self) -> None:
        """Give the request's number back."""
        if self.recorder is SESSION.recorder:
            self.recorder.requests.free(self.request)
            self.request = 0

    def give_up(self) -> None:
        """Note that the request was cancelled or freed: who receives which message is not known any more."""
        if self.receives is not None and self.recorder is SESSION.recorder:
            comm, peer, tag, nth, _ = self.receives
            self.recorder.messages.withdraw(comm, peer, tag, nth)
            self.recorder.fail(self.record)  # a sender that has seen it is not stopped by it
            self.recorder.messages.expect(comm, ANY, ANY, 1)  # for good: no more numbers on this communicator


class Requests:
    """Wraps requests of one mpi4py."""

    def __init__(self, kinds: dict[type, type]) -> None:
        self._kinds = kinds

    def wrap(self, made: Any, posted: Posted) -> Any:
        """Return the request as a watched one."""
        kind = self._kinds.get(type(made))
        if kind is None:  # a Grequest, or a class of the user's
            return made
        watched = kind(made)
        watched._paceline = posted
        return watched


def watch_requests(mpi: Any) -> Requests:
    """Derive watched requests and put them into mpi4py's module."""
    kinds = {}
    for name in ("Request", "Prequest"):
        base = getattr(mpi, name)
        kinds[base] = _derive(base, mpi)
    for base, kind in kinds.items():
        setattr(mpi, base.__name__, kind)
    return Requests(kinds)


def _numbers(requests: Sequence[Any]) -> list[int]:
    """Return the numbers of requests that are still out; 0 for one that is not followed."""
    return [posted.request if (posted := _posted(request)) else 0 for request in requests if request]


def _posted(request: Any) -> Posted | None:
    return getattr(request, "_paceline", None)


def _wants_status(requests: Sequence[Any]) -> bool:
    return any(posted.receives is not None for request in requests if (posted := _posted(request)))


def _derive(base: Any, mpi: Any) -> type:
    status_type = mpi.Status

    def wait_one(name: str) -> Any:
        function, code = getattr(base, name), BY_NAME[name].code

        def wait(self: Any, status: Any = None) -> Any:
            posted, recorder = _posted(self), SESSION.recorder
            if posted is None or recorder is None or not self:
                return function(self, status)
            if status is None and posted.receives is not None:
                status = status_type()
            number = recorder.begin_wait(code, [posted.request], any_of=False)
            recorder.block(number)
            try:
                value = function(self, status)
            except BaseException as error:
                recorder.fail(number)
                SESSION.note_failure(error, posted.record)
                raise
            finally:
                recorder.unblock(number)
            posted.complete(status)
            return value

        return named_like(wait, function)

    def test_one(name: str) -> Any:
        function = getattr(base, name)

        def test(self: Any, status: Any = None) -> Any:
            posted = _posted(self)
            if posted is None or not self:
                return function(self, status)
            if status is None and posted.receives is not None:
                status = status_type()
            value = function(self, status)
            if value is True or (type(value) is tuple and value[0]):
                posted.complete(status)
            return value

        return named_like(test, function)

    def many(name: str, *, blocks: bool) -> Any:
        function = getattr(base, name)
        code = BY_NAME[name].code if blocks else 0
        one = name.lower().endswith("any")

        def call(requests: Any, statuses: Any) -> Any:
            recorder = SESSION.recorder
            if recorder is None or not isinstance(requests, list | tuple):
                return function(requests, statuses)
            out = [bool(request) for request in requests]
            if statuses is None and _wants_status(requests):
                statuses = status_type() if one else []
            if not blocks:
                value = function(requests, statuses)
            else:
                number = recorder.begin_wait(code, _numbers(requests), any_of=not name.lower().endswith("all"))
                with InCall(recorder, number):
                    value = function(requests, statuses)
            for index, status in _completed(name.lower(), value, statuses, out, mpi.UNDEFINED):
                posted = _posted(requests[index])
                if posted is not None:
                    posted.complete(status)
            return value

        def with_status(cls: Any, requests: Any, status: Any = None) -> Any:
            return call(requests, status)

        def with_statuses(cls: Any, requests: Any, statuses: Any = None) -> Any:
            return call(requests, statuses)

        return classmethod(named_like(with_status if one else with_statuses, function))

    def giving_up(name: str) -> Any:
        function = getattr(base, name)

        def call(self: Any) -> Any:
            if (posted := _posted(self)) is not None:
                posted.give_up()
            return function(self)

        return call

    members: dict[str, Any] = {"_paceline": None, "__module__": base.__module__, "__doc__": base.__doc__}
    members["_paceline_base"] = base
    members |= {name: wait_one(name) for name in ("Wait", "wait")}
    members |= {name: test_one(name) for name in ("Test", "test")}
    waits = ["Waitall", "waitall", "Waitany", "waitany", "Waitsome", "waitsome"]
    tests = ["Testall", "testall", "Testany", "testany", "Testsome", "testsome"]
    members |= {name: many(name, blocks=True) for name in waits}
    members |= {name: many(name, blocks=False) for name in tests}
    members |= {name: giving_up(name) for name in ("Cancel", "cancel", "Free")}
    if base.__name__ == "Prequest":
        members |= _starting(base)
    return LikeBase(base.__name__, (base,), members)


def _starting(base: Any) -> dict[str, Any]:
    def start(self: Any) -> Any:
        if (posted := _posted(self)) is not None:
            posted.start()
        return base.Start(self)

    def start_all(cls: Any, requests: Any) -> Any:
        for request in requests:
            if (posted := _posted(request)) is not None:
                posted.start()
        return base.Startall(requests)

    return {"Start": start, "Startall": classmethod(start_all)}


def _completed(name: str, value: Any, statuses: Any, out: list[bool], undefined: int) -> list[tuple[int, Any]]:
    """Return which requests a call has completed, with their statuses, from what it returned."""
    if name.endswith("all"):
        done = value if isinstance(value, bool) else value[0] if name == "testall" else True
        every = [index for index, was_out in enumerate(out) if was_out] if done else []
        return [(index, statuses[index] if statuses and index < len(statuses) else None) for index in every]
    if name.endswith("any"):
        index = value[0] if isinstance(value, tuple) else value
        done = value[1] is True if name.startswith("test") and isinstance(value, tuple) else True
        return [(index, statuses)] if done and index != undefined and index >= 0 and out[index] else []
    indices = value[0] if isinstance(value, tuple) else value
    if not indices:
        return []
    return [(index, statuses[at] if statuses and at < len(statuses) else None) for at, index in enumerate(indices)]


__all__ = ["Posted", "Requests", "watch_requests"]
