"""Watches the collectives of mpi4py: records each, meets the other members, then makes the call.

What is read of the arguments is in mpi_collective_arguments.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from paceline.guard.rank.mpi.mpi_collective_arguments import READERS, CollectiveReader, MpiCollectiveArguments
from paceline.guard.rank.mpi.mpi_constants import number_or_outsider
from paceline.guard.rank.mpi.mpi_module import MpiWatch
from paceline.guard.rank.mpi.replaced_methods import named_like, own_method
from paceline.guard.rank.posted_request import PostedRequest
from paceline.guard.rank.watched_calls import CALLED_BY_WRAPPER, make_blocked_call, post_request
from paceline.guard.rank.watched_process import SESSION
from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.operations import BY_NAME, Operation

_Read = Callable[..., MpiCollectiveArguments]


def watched_collectives(base: Any, watch: MpiWatch) -> dict[str, Any]:
    """Return the watched forms of the collectives that a class defines: blocking, non-blocking, persistent."""
    reader = CollectiveReader(watch.mpi, watch.buffers, watch.constants)
    members: dict[str, Any] = {}
    for name, method in READERS.items():
        read = getattr(reader, method.__name__)
        function = own_method(base, name)
        if function is not None:
            members[name] = _watched_blocking(function, BY_NAME[name], read, watch)
        if name[0].islower():
            continue  # of pickled objects there are only blocking ones
        for posting, active in ((f"I{name.lower()}", True), (f"{name}_init", False)):
            function = own_method(base, posting)
            if function is not None:
                members[posting] = _watched_posting(function, BY_NAME[posting], read, watch, active=active)
    return members


def _watched_blocking(function: Any, operation: Operation, read: _Read, watch: MpiWatch) -> Any:
    if operation.name in ("Barrier", "barrier"):
        return _watched_barrier(function, operation, watch)
    code, rooted = operation.code, operation.rooted
    followed, handle_of = watch.communicators.get, watch.handle_of

    def call(*args: Any, **named: Any) -> Any:
        communicator, recorder = followed(handle_of(args[0])), SESSION.recorder
        if communicator is None or recorder is None:
            return function(*args, **named)
        try:
            root, reduction, (dtype, num_bytes, count) = read(*args, **named)
            if rooted:
                root = number_or_outsider(root)
        except TypeError:  # wrong arguments: mpi4py says so better
            return function(*args, **named)
        number = recorder.begin_collective(communicator, code, root, reduction, dtype, num_bytes, count)
        return make_blocked_call(recorder, number, function, args, named)

    return named_like(call, function)


def _watched_barrier(function: Any, operation: Operation, watch: MpiWatch) -> Any:
    """Return a barrier: it has no arguments to compare, and is called most often.

    So make_blocked_call is written out here, which saves 6 per cent of what the guard adds to the call.
    """
    code = operation.code
    followed, handle_of = watch.communicators.get, watch.handle_of

    def call(self: Any) -> Any:
        communicator, recorder = followed(handle_of(self)), SESSION.recorder
        if communicator is None or recorder is None:
            return function(self)
        number = recorder.begin_collective(communicator, code)
        try:
            return function(self)
        except BaseException as error:
            SESSION.note_failure(error, number)
            raise
        finally:
            recorder.unblock(number)

    return named_like(call, function)


def _watched_posting(function: Any, operation: Operation, read: _Read, watch: MpiWatch, *, active: bool) -> Any:
    """Return a collective that is only started, or with `active` off one that is prepared for many starts."""
    code, rooted = operation.code, operation.rooted
    followed, handle_of, follow_request = watch.communicators.get, watch.handle_of, watch.requests.follow

    def call(*args: Any, **named: Any) -> Any:
        communicator, recorder = followed(handle_of(args[0])), SESSION.recorder
        if communicator is None or recorder is None:
            return function(*args, **named)
        try:
            root, reduction, (dtype, num_bytes, count) = read(*args, **named)
            if rooted:
                root = number_or_outsider(root)
        except TypeError:
            return function(*args, **named)
        request = recorder.requests.take()
        number = recorder.begin_collective(
            communicator, code, root, reduction, dtype, num_bytes, count, layout.NONBLOCKING, request,
            depth=CALLED_BY_WRAPPER,
        )  # fmt: skip
        request_made = post_request(recorder, number, request, function, args, named, active=active)
        return follow_request(request_made, PostedRequest(recorder, request, number))

    return named_like(call, function)
