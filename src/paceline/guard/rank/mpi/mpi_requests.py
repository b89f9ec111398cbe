"""Watches mpi4py's requests: which of them a rank waits for, and when they complete.

The tables say which methods wait or test, for how many requests; the functions below them make the watched forms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from paceline.guard.rank.mpi.replaced_methods import named_like, own_method
from paceline.guard.rank.posted_request import PostedRequest
from paceline.guard.rank.remarks.rank_remarks import DroppedRequest
from paceline.guard.rank.watched_calls import NO_NAMED, make_call, make_wait
from paceline.guard.rank.watched_process import SESSION
from paceline.guard.shared_memory.operations import BY_NAME

_WAITS_FOR_ALL = ("Waitall", "waitall")
_ASKS_STATUS = ("Get_status", "get_status")
_Find = Callable[[Any], PostedRequest | None]
_Completed = list[tuple[int, Any]]  # index of a request among those that were given, and its status
# (what the call returned, statuses, whether each request was out before, the number for no index) -> completed
_FindCompleted = Callable[[Any, Any, list[bool], int], _Completed]


class WaitCompiler(Protocol):
    """Makes compiled forms of waits."""

    def wait(self, in_python: Any, function: Any, code: int, *, for_all: bool) -> Any:
        """Return the compiled form of a wait, or what is there in Python if nothing is compiled."""


class FollowedRequests:
    """The requests that are followed, by the identity of the object: MPI has one handle for many that are complete.

    An object that the user drops is forgotten, and with it what was known of the request.
    """

    def __init__(self, handle_of: Callable[[Any], int]) -> None:
        self.by_object: dict[int, PostedRequest] = {}
        self._handle_of = handle_of

    def follow(self, request: Any, posted: PostedRequest) -> Any:
        """Remember what is known of a request that was just posted; return the request."""
        posted.handle = self._handle_of(request)
        posted.stand_for(request, self.by_object)
        return request

    def find_copied(self, request: Any) -> None:
        """Take a request that is not followed for a copy of one that is: what becomes of that one is not known."""
        recorder, handle = SESSION.recorder, self._handle_of(request)
        if recorder is not None and request:
            recorder.remarks.find_again(handle)
            for posted in list(self.by_object.values()):
                if posted.handle == handle:
                    posted.settle()

    def left(self) -> list[DroppedRequest]:
        """Return the requests that are under way now, at the end."""
        found = [posted.leave() for posted in list(self.by_object.values())]
        return [dropped for dropped in found if dropped is not None]

    def find(self, request: Any) -> PostedRequest | None:
        """Return what is known of a request, None if it is not followed."""
        return self.by_object.get(id(request))

    def find_or_doubt(self, request: Any) -> PostedRequest | None:
        """Return what is known of a request that is about to be completed; None if it is not followed."""
        posted = self.by_object.get(id(request))
        if posted is None and request:
            self.find_copied(request)
        return posted


def watched_requests(base: Any, requests: FollowedRequests, mpi: Any, compiled: WaitCompiler) -> dict[str, Any]:
    """Return the watched forms of those methods of a class of requests that it defines."""
    find = requests.find_or_doubt
    members: dict[str, Any] = {}

    def watch(names: Sequence[str], watched: Callable[[Any], Any]) -> None:
        members.update({name: watched(function) for name in names if (function := own_method(base, name)) is not None})

    def wait(function: Any) -> Any:
        in_python, code = _watched_wait(function, find, mpi.Status), BY_NAME[function.__name__].code
        return compiled.wait(in_python, function, code, for_all=False)

    def many(function: Any) -> Any:
        in_python, name = _watched_many(function, find, mpi), function.__name__
        if name in _WAITS_FOR_ALL:
            in_python = compiled.wait(in_python, function, BY_NAME[name].code, for_all=True)
        return classmethod(in_python)

    watch(("Wait", "wait"), wait)
    watch(("Test", "test"), lambda function: _watched_test(function, find, mpi.Status))
    watch(tuple(MANY), many)
    watch(tuple(_ASKS_STATUS), lambda function: _watched_status(function, find))
    watch(("Cancel", "cancel", "Free", "free"), lambda function: _watched_give_up(function, find))
    if base is mpi.Prequest:  # the Start of a Grequest makes one
        watch(("Start",), lambda function: _watched_start(function, find))
        watch(("Pready", "Pready_range", "Pready_list"), lambda function: _watched_ready(function, find))
        watch(("Startall",), lambda function: classmethod(_watched_start_all(function, find)))
    return members


# One request.


def _watched_wait(function: Any, find: _Find, status_type: Any) -> Any:
    code = BY_NAME[function.__name__].code

    def wait(self: Any, status: Any = None) -> Any:
        posted, recorder = find(self), SESSION.recorder
        if posted is None or recorder is None or not self:
            return function(self, status)
        if status is None and posted.receives is not None:
            status = status_type()  # it will say who sent the message
        number = recorder.begin_wait(code, [posted.request], any_of=False)
        try:
            value = make_wait(recorder, number, posted.record, function, (self, status), NO_NAMED)
        except BaseException:
            posted.settle()
            raise
        posted.complete(status)
        return value

    return named_like(wait, function)


def _watched_test(function: Any, find: _Find, status_type: Any) -> Any:
    def test(self: Any, status: Any = None) -> Any:
        posted = find(self)
        if posted is None or not self:
            return function(self, status)
        if status is None and posted.receives is not None:
            status = status_type()
        try:
            value = function(self, status)
        except BaseException:
            posted.settle()
            raise
        if value is True or (type(value) is tuple and value[0]):  # Test returns a flag, test a flag and the object
            posted.complete(status)
        return value

    return named_like(test, function)


def _watched_give_up(function: Any, find: _Find) -> Any:
    frees = function.__name__ in ("Free", "free")

    def call(self: Any) -> Any:
        if (posted := find(self)) is not None:
            if frees and posted.on_start is not None and posted.is_active:
                _say_misuse(posted, "freed")
            posted.give_up()
            if frees:
                posted.on_start = None
        return function(self)

    return named_like(call, function)


def _watched_start(function: Any, find: _Find) -> Any:
    def start(self: Any) -> Any:
        posted = find(self)
        if posted is None:
            return function(self)
        _start(posted)
        try:
            return function(self)
        except BaseException:
            posted.take_back_start()
            raise

    return named_like(start, function)


def _watched_ready(function: Any, find: _Find) -> Any:
    """Return a call by which parts of a message may go: it tells others something without a record of its own."""

    def ready(self: Any, *args: Any, **named: Any) -> Any:
        if (posted := find(self)) is not None:
            posted.recorder.remarks.speak()
        return function(self, *args, **named)

    return named_like(ready, function)


def _start(posted: PostedRequest) -> None:
    posted.recorder.remarks.speak()
    if posted.is_active:
        _say_misuse(posted, "restarted")
        posted.settle()
    posted.start()


def _say_misuse(posted: PostedRequest, how: str) -> None:
    """Say that a persistent request that is under way was started again or freed."""
    dropped = posted.dropped(how)
    if dropped is not None:
        dropped.handle = 0  # whoever has a copy of it cannot undo this
        posted.recorder.remarks.dropped.append(dropped)


def _watched_status(function: Any, find: _Find) -> Any:
    """Return a question that leaves the request as it is; who asks until it is complete has no need to wait."""

    def call(self: Any, status: Any = None) -> Any:
        value = function(self, status)
        if (value is True or (type(value) is tuple and value[0])) and (posted := find(self)) is not None:
            posted.excuse()
        return value

    return named_like(call, function)


# Several requests: these are class methods.


def _watched_start_all(function: Any, find: _Find) -> Any:
    def start_all(cls: Any, requests: Any) -> Any:
        for request in requests:
            if (posted := find(request)) is not None:
                _start(posted)
        return function(cls, requests)

    return named_like(start_all, function)


def _watched_many(function: Any, find: _Find, mpi: Any) -> Any:
    """Return the watched form of a call that waits for several requests, or tests them."""
    name = function.__name__
    read, find_completed = MANY[name]
    operation = BY_NAME.get(name)  # tests are no operations: they do not wait
    one, any_of = name.lower().endswith("any"), not name.lower().endswith("all")

    def call(*args: Any, **named: Any) -> Any:
        recorder = SESSION.recorder
        try:
            requests, statuses = read(*args, **named)
        except TypeError:  # wrong arguments: mpi4py says so better
            return function(*args, **named)
        given, requests = requests, _listed(requests)
        if recorder is None or requests is None:
            return function(args[0], given, statuses)
        were_out = [bool(request) for request in requests]  # afterwards those that completed are null requests
        if statuses is None and _wants_status(requests, find):
            statuses = mpi.Status() if one else []
        try:
            if operation is None:
                value = function(args[0], given, statuses)
            else:
                number = recorder.begin_wait(operation.code, _request_numbers(requests, find), any_of=any_of)
                value = make_call(recorder, number, function, (args[0], given, statuses), NO_NAMED)
        except BaseException:
            for request in requests:
                if (posted := find(request)) is not None:
                    posted.settle()
            raise
        for index, status in find_completed(value, statuses, were_out, mpi.UNDEFINED):
            posted = find(requests[index])
            if posted is not None:
                posted.complete(status)
        return value

    return named_like(call, function)


def _listed(requests: Any) -> Sequence[Any] | None:
    """Return requests that are given in any sequence; None for what is not one, which mpi4py refuses."""
    if isinstance(requests, list | tuple):
        return requests
    try:
        return [requests[index] for index in range(len(requests))]
    except (TypeError, LookupError):
        return None


def _request_numbers(requests: Sequence[Any], find: _Find) -> list[int]:
    """Return the numbers of requests that are still out; 0 for one that is not followed."""
    return [posted.request if (posted := find(request)) else 0 for request in requests if request]


def _wants_status(requests: Sequence[Any], find: _Find) -> bool:
    """Say whether one of the requests is a receive, whose status says who sent the message."""
    return any(posted.receives is not None for request in requests if (posted := find(request)))


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
