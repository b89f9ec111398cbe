"""Watches the collectives of mpi4py: records each, meets the other members, then makes the call.

What is read of the arguments is in mpi_collective_arguments.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from paceline.guard.rank.buffer_size import UNKNOWN_SIZE
from paceline.guard.rank.count_tables import TableRead, meet_pairs
from paceline.guard.rank.mpi.compiled_calls import CompiledCalls
from paceline.guard.rank.mpi.mpi_collective_arguments import PLACES, READERS, MpiCollectiveArguments
from paceline.guard.rank.mpi.mpi_constants import number_or_outsider
from paceline.guard.rank.mpi.mpi_count_tables import TableReader
from paceline.guard.rank.mpi.mpi_module import MpiWatch
from paceline.guard.rank.mpi.replaced_methods import named_like, own_method
from paceline.guard.rank.mpi.sides.mpi_intercommunicators import watched_between_sides
from paceline.guard.rank.posted_request import PostedRequest
from paceline.guard.rank.watched_calls import CALLED_BY_WRAPPER, make_blocked_call, post_request
from paceline.guard.rank.watched_process import SESSION
from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.operations import BY_NAME, Operation

_Read = Callable[..., MpiCollectiveArguments]
_BARRIERS = ("Barrier", "barrier")


def watched_collectives(base: Any, watch: MpiWatch, compiled: CompiledCalls) -> dict[str, Any]:
    """Return the watched forms of the collectives that a class defines: blocking, non-blocking, persistent."""
    tables = TableReader(watch.mpi, watch.buffers)
    members: dict[str, Any] = {}
    for name, method in READERS.items():
        read, read_table = getattr(watch.collective_reader, method.__name__), tables.of(name)
        function = own_method(base, name)
        if function is not None and read_table is not None:
            members[name] = _watched_with_table(function, BY_NAME[name], read, read_table, watch)
        elif function is not None:
            operation, places = BY_NAME[name], PLACES.get(method.__name__)
            in_python = watched_blocking(function, operation, read, watch)
            read_blocking = _read_barrier if name in _BARRIERS else read
            members[name] = compiled.collective(in_python, function, operation, read_blocking, places)
        if name[0].islower():
            continue  # of pickled objects there are only blocking ones
        for posting, active in ((f"I{name.lower()}", True), (f"{name}_init", False)):
            function = own_method(base, posting)
            if function is not None:
                members[posting] = _watched_posting(
                    function, BY_NAME[posting], name, read, read_table, watch, active=active
                )
    return members


def _read_barrier(comm: Any) -> MpiCollectiveArguments:
    """Read the arguments of a barrier that blocks: others may have an info."""
    return layout.NOTHING, 0, UNKNOWN_SIZE


def watched_blocking(function: Any, operation: Operation, read: _Read, watch: MpiWatch) -> Any:
    """Return a function that records a collective without a table of counts, and makes it."""
    if operation.name in _BARRIERS:
        return _watched_barrier(function, operation, watch)
    code, rooted = operation.code, operation.rooted
    followed, handle_of = watch.communicators.get, watch.handle_of
    between_sides = watched_between_sides(function, operation, operation.name, watch)
    make = make_blocked_call if watch.results is None else watch.results.making(operation.name)

    def call(*args: Any, **named: Any) -> Any:
        communicator, recorder = followed(handle_of(args[0])), SESSION.recorder
        if communicator is None or recorder is None:
            return between_sides(*args, **named)
        try:
            root, reduction, (dtype, num_bytes, count) = read(*args, **named)
            if rooted:
                root = number_or_outsider(root)
        except TypeError:  # wrong arguments: mpi4py says so better
            return function(*args, **named)
        number = recorder.begin_collective(communicator, code, root, reduction, dtype, num_bytes, count)
        return make(recorder, number, function, args, named)

    return named_like(call, function)


def _watched_with_table(
    function: Any, operation: Operation, read: _Read, read_table: TableRead, watch: MpiWatch
) -> Any:
    """Return a blocking collective that takes a table of counts: it is compared by pairs of members as well."""
    code, rooted = operation.code, operation.rooted
    followed, handle_of = watch.communicators.get, watch.handle_of
    between_sides = watched_between_sides(function, operation, operation.name, watch)

    def call(*args: Any, **named: Any) -> Any:
        communicator, recorder = followed(handle_of(args[0])), SESSION.recorder
        if communicator is None or recorder is None:
            return between_sides(*args, **named)
        try:
            root, reduction, (dtype, num_bytes, count) = read(*args, **named)
            if rooted:
                root = number_or_outsider(root)
        except TypeError:
            return function(*args, **named)
        table = read_table(communicator, *args, **named)
        number = recorder.begin_collective(communicator, code, root, reduction, dtype, num_bytes, count)
        meet_pairs(recorder, number, communicator, table, waits=True)
        return make_blocked_call(recorder, number, function, args, named)

    return named_like(call, function)


def _watched_barrier(function: Any, operation: Operation, watch: MpiWatch) -> Any:
    """Return a barrier: it has no arguments to compare, and is called most often.

    So make_blocked_call is written out here, which saves 6 per cent of what the guard adds to the call.
    """
    code = operation.code
    followed, handle_of = watch.communicators.get, watch.handle_of
    between_sides = watched_between_sides(function, operation, operation.name, watch)

    def call(self: Any) -> Any:
        communicator, recorder = followed(handle_of(self)), SESSION.recorder
        if communicator is None or recorder is None:
            return between_sides(self)
        number = recorder.begin_collective(communicator, code)
        try:
            return function(self)
        except BaseException as error:
            SESSION.note_failure(error, number)
            raise
        finally:
            recorder.unblock(number)

    return named_like(call, function)


def _watched_posting(
    function: Any,
    operation: Operation,
    name: str,
    read: _Read,
    read_table: TableRead | None,
    watch: MpiWatch,
    *,
    active: bool,
) -> Any:
    """Return a collective that is only started, or with `active` off one that is prepared for many starts."""
    code, rooted = operation.code, operation.rooted
    followed, handle_of, follow_request = watch.communicators.get, watch.handle_of, watch.requests.follow
    between_sides = watched_between_sides(function, operation, name, watch, active=active)
    # what is prepared for many starts is not followed from start to start
    read_memory = watch.memory.of_collective(name) if active else None

    def call(*args: Any, **named: Any) -> Any:
        communicator, recorder = followed(handle_of(args[0])), SESSION.recorder
        if communicator is None or recorder is None:
            return between_sides(*args, **named)
        try:
            root, reduction, (dtype, num_bytes, count) = read(*args, **named)
            if rooted:
                root = number_or_outsider(root)
        except TypeError:
            return function(*args, **named)
        table = read_table(communicator, *args, **named) if read_table is not None else None
        request = recorder.requests.take()
        number = recorder.begin_collective(
            communicator, code, root, reduction, dtype, num_bytes, count, layout.NONBLOCKING, request,
            depth=CALLED_BY_WRAPPER,
        )  # fmt: skip
        if table is not None:
            meet_pairs(recorder, number, communicator, table, waits=False)
        request_made = post_request(recorder, number, request, function, args, named, active=active)
        posted = PostedRequest(recorder, request, number, is_active=active)
        if read_memory is not None:
            posted.use(*read_memory(*args, **named))
        return follow_request(request_made, posted)

    return named_like(call, function)
