"""Makes calls that have been recorded: every watched function of mpi4py and torch ends in one of these.

They are plain functions that take the arguments as they came, because a `with` block costs three times as much: a
quarter of a microsecond, on calls that take one and a half with everything the guard does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.rank.watched_process import SESSION

# How many frames the user's own frame is away from a method of the recorder (its `depth`). The recorder starts from
# that frame to find the call's site. Too small a number costs time, since the recorder then has to search outwards;
# too large a number skips the user's line and names the wrong one. tests/guard/test_call_sites.py holds them.
# the method, the watched function that calls it, and then the user's frame: the default of `begin` and `collective`
CALLED_BY_WRAPPER = 2
CALLED_BY_HELPER = 3  # the same with one function between the watched function and the method

Named = dict[str, Any]
NO_NAMED: Named = {}


def make_blocked_call(
    recorder: Recorder, number: int, function: Callable[..., Any], args: tuple[Any, ...], named: Named
) -> Any:
    """Make a call in which this thread waits, as has been said already: `Recorder.collective` says so by itself."""
    try:
        return function(*args, **named)
    except BaseException as error:
        SESSION.note_failure(error, number)
        raise
    finally:
        recorder.unblock(number)


def make_call(
    recorder: Recorder, number: int, function: Callable[..., Any], args: tuple[Any, ...], named: Named
) -> Any:
    """Say that this thread waits in a call that `Recorder.begin` or `Recorder.wait` has recorded, and make it."""
    recorder.block(number)
    return make_blocked_call(recorder, number, function, args, named)


def make_message(
    recorder: Recorder, number: int, function: Callable[..., Any], args: tuple[Any, ...], named: Named
) -> Any:
    """Send or receive a message. If that raises, it is not known what became of the message."""
    recorder.block(number)
    try:
        return function(*args, **named)
    except BaseException as error:
        SESSION.note_failure(error, number)
        recorder.remarks.doubt_message()
        raise
    finally:
        recorder.unblock(number)


def make_wait(
    recorder: Recorder,
    number: int,
    posted_by: int,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    named: Named,
) -> Any:
    """Wait for one request. If that raises, it is the call that posted the request which failed, and the wait too."""
    recorder.block(number)
    try:
        return function(*args, **named)
    except BaseException as error:
        recorder.fail(number)
        SESSION.note_failure(error, posted_by, was_posted=True)
        raise
    finally:
        recorder.unblock(number)


def post_request(
    recorder: Recorder,
    number: int,
    request: int,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    named: Named,
    *,
    active: bool,
) -> Any:
    """Make a call that returns a request. A persistent request is not active before it is started.

    Afterwards the record of the call is kept with the request; if the call raises, the request's number is given back.
    """
    try:
        request_made = function(*args, **named)
    except BaseException as error:
        SESSION.note_failure(error, number)
        recorder.remarks.doubt_message()
        recorder.requests.free(request)
        raise
    recorder.leave(number)
    if recorder.remarks.dropped:
        recorder.remarks.say_dropped()
    recorder.requests.keep(request, number)
    recorder.requests.activate(request, posted=active)
    return request_made
