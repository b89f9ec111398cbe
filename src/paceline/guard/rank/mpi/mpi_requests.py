"""Watches mpi4py's requests: which of them a rank waits for, and when they complete.

The tables say which methods wait or test, for how many requests; the functions below them make the watched forms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from paceline.guard.rank.mpi.lookalike import LookalikeMeta, named_like
from paceline.guard.rank.posted_request import PostedRequest
from paceline.guard.rank.watched_calls import NO_NAMED, make_call, make_wait
from paceline.guard.rank.watched_process import SESSION
from paceline.guard.shared_memory.operations import BY_NAME

_Completed = list[tuple[int, Any]]  # index of a request among those that were given, and its status
# (what the call returned, statuses, whether each request was out before, the number for no index) -> completed
_FindCompleted = Callable[[Any, Any, list[bool], int], _Completed]


class WatchedRequests:
    """The watched classes of requests of one mpi4py."""

    def __init__(self, classes: dict[type, type]) -> None:
        self._classes = classes

    def wrap(self, request: Any, posted: PostedRequest) -> Any:
        """Return the request as a watched one."""
        kind = self._classes.get(type(request))
        if kind is None:  # a Grequest, or a class of the user's
            return request
        watched = kind(request)
        watched._paceline = posted
        return watched


def watch_requests(mpi: Any) -> WatchedRequests:
    """Derive watched requests and put them into mpi4py's module."""
    classes = {base: _watched_class(base, mpi) for base in (mpi.Request, mpi.Prequest)}
    for base, kind in classes.items():
        setattr(mpi, base.__name__, kind)
    return WatchedRequests(classes)


def _watched_class(base: Any, mpi: Any) -> type:
    members: dict[str, Any] = {
        "_paceline": None,
        "_paceline_base": base,
        "__module__": base.__module__,
        "__doc__": base.__doc__,
    }
    for name in ("Wait", "wait"):
        members[name] = _watched_wait(getattr(base, name), BY_NAME[name].code, mpi.Status)
    for name in ("Test", "test"):
        members[name] = _watched_test(getattr(base, name), mpi.Status)
    for name, (read, find_completed) in MANY.items():
        members[name] = classmethod(_watched_many(getattr(base, name), read, find_completed, mpi))
    for name in ("Cancel", "cancel", "Free"):
        members[name] = _watched_give_up(getattr(base, name))
    if base is mpi.Prequest:
        members["Start"] = _watched_start(base.Start)
        members["Startall"] = classmethod(_watched_start_all(base.Startall))
    return LookalikeMeta(base.__name__, (base,), members)


def _posted(request: Any) -> PostedRequest | None:
    return getattr(request, "_paceline", None)


# One request.


def _watched_wait(function: Any, code: int, status_type: Any) -> Any:
    def wait(self: Any, status: Any = None) -> Any:
        posted, recorder = _posted(self), SESSION.recorder
        if posted is None or recorder is None or not self:
            return function(self, status)
        if status is None and posted.receives is not None:
            status = status_type()  # it will say who sent the message
        number = recorder.begin_wait(code, [posted.request], any_of=False)
        value = make_wait(recorder, number, posted.record, function, (self, status), NO_NAMED)
        posted.complete(status)
        return value

    return named_like(wait, function)


def _watched_test(function: Any, status_type: Any) -> Any:
    def test(self: Any, status: Any = None) -> Any:
        posted = _posted(self)
        if posted is None or not self:
            return function(self, status)
        if status is None and posted.receives is not None:
            status = status_type()
        value = function(self, status)
        if value is True or (type(value) is tuple and value[0]):  # Test returns a flag, test a flag and the object
            posted.complete(status)
        return value

    return named_like(test, function)


def _watched_give_up(function: Any) -> Any:
    def call(self: Any) -> Any:
        if (posted := _posted(self)) is not None:
            posted.give_up()
        return function(self)

    return named_like(call, function)


def _watched_start(function: Any) -> Any:
    def start(self: Any) -> Any:
        if (posted := _posted(self)) is not None:
            posted.start()
        return function(self)

    return named_like(start, function)


# Several requests. A class method of mpi4py's is bound to its class already, so `cls` is not passed on.


def _watched_start_all(function: Any) -> Any:
    def start_all(cls: Any, requests: Any) -> Any:
        for request in requests:
            if (posted := _posted(request)) is not None:
                posted.start()
        return function(requests)

    return named_like(start_all, function)


def _watched_many(function: Any, read: Callable[..., tuple[Any, Any]], find_completed: _FindCompleted, mpi: Any) -> Any:
    """Return the watched form of a call that waits for several requests, or tests them."""
    name = function.__name__
    operation = BY_NAME.get(name)  # tests are no operations: they do not wait
    one, any_of = name.lower().endswith("any"), not name.lower().endswith("all")

    def call(*args: Any, **named: Any) -> Any:
        recorder = SESSION.recorder
        try:
            requests, statuses = read(*args, **named)
        except TypeError:  # wrong arguments: mpi4py says so better
            return function(*args[1:], **named)
        if recorder is None or not isinstance(requests, list | tuple):
            return function(requests, statuses)
        were_out = [bool(request) for request in requests]  # afterwards those that completed are null requests
        if statuses is None and _wants_status(requests):
            statuses = mpi.Status() if one else []
        if operation is None:
            value = function(requests, statuses)
        else:
            number = recorder.begin_wait(operation.code, _request_numbers(requests), any_of=any_of)
            value = make_call(recorder, number, function, (requests, statuses), NO_NAMED)
        for index, status in find_completed(value, statuses, were_out, mpi.UNDEFINED):
            posted = _posted(requests[index])
            if posted is not None:
                posted.complete(status)
        return value

    return named_like(call, function)


def _request_numbers(requests: Sequence[Any]) -> list[int]:
    """Return the numbers of requests that are still out; 0 for one that is not followed."""
    return [posted.request if (posted := _posted(request)) else 0 for request in requests if request]


def _wants_status(requests: Sequence[Any]) -> bool:
    """Say whether one of the requests is a receive, whose status says who sent the message."""
    return any(posted.receives is not None for request in requests if (posted := _posted(request)))


# What such a call takes: the names of arguments differ.


def _read_for_one(cls: Any, requests: Any, status: Any = None) -> tuple[Any, Any]:
    return requests, status


def _read_for_many(cls: Any, requests: Any, statuses: Any = None) -> tuple[Any, Any]:
    return requests, statuses


# Which requests such a call has completed, from what it returned.


def _all_waited(value: Any, statuses: Any, were_out: list[bool], undefined: int) -> _Completed:
    indices = [index for index, was_out in enumerate(were_out) if was_out]
    return [(index, statuses[index] if statuses and index < len(statuses) else None) for index in indices]


def _all_tested(value: Any, statuses: Any, were_out: list[bool], undefined: int) -> _Completed:
    done = value[0] if isinstance(value, tuple) else value  # testall returns a flag and the objects
    return _all_waited(value, statuses, were_out, undefined) if done else []


def _any_waited(value: Any, status: Any, were_out: list[bool], undefined: int) -> _Completed:
    index = value[0] if isinstance(value, tuple) else value  # waitany returns an index and the object
    return [(index, status)] if index != undefined and index >= 0 and were_out[index] else []


def _any_tested(value: Any, status: Any, were_out: list[bool], undefined: int) -> _Completed:
    return _any_waited(value, status, were_out, undefined) if value[1] is True else []


def _some(value: Any, statuses: Any, were_out: list[bool], undefined: int) -> _Completed:
    indices = (value[0] if isinstance(value, tuple) else value) or ()  # waitsome returns indices and objects
    return [(index, statuses[at] if statuses and at < len(statuses) else None) for at, index in enumerate(indices)]


# operation -> how to read its arguments, and what it has completed
MANY: dict[str, tuple[Callable[..., tuple[Any, Any]], _FindCompleted]] = {
    **dict.fromkeys(("Waitall", "waitall"), (_read_for_many, _all_waited)),
    **dict.fromkeys(("Testall", "testall"), (_read_for_many, _all_tested)),
    **dict.fromkeys(("Waitany", "waitany"), (_read_for_one, _any_waited)),
    **dict.fromkeys(("Testany", "testany"), (_read_for_one, _any_tested)),
    **dict.fromkeys(("Waitsome", "waitsome", "Testsome", "testsome"), (_read_for_many, _some)),
}
