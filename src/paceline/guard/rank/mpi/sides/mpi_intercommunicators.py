"""Watches intercommunicators: how they are made, their collectives, and messages from one side to the other.

One is followed like any communicator, with the members of both sides in one list (see Communicator). So peers and roots
are recorded by their number in this list, and who reads the records need not know of sides to find out who waits for
whom. The watched methods come here for a communicator that has not one side: what is most common stays fast.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from paceline.guard.rank.buffer_size import UNKNOWN_SIZE, Size
from paceline.guard.rank.communicator import Communicator
from paceline.guard.rank.mpi.mpi_constants import whole_number
from paceline.guard.rank.mpi.mpi_module import MpiWatch
from paceline.guard.rank.posted_request import PostedRequest
from paceline.guard.rank.watched_calls import CALLED_BY_HELPER, make_blocked_call, post_request
from paceline.guard.rank.watched_process import SESSION
from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.layout import NOTHING
from paceline.guard.shared_memory.nobody import encode_outsider
from paceline.guard.shared_memory.operations import REDUCTION_CODES, UNKNOWN_REDUCTION, Operation

# where an argument stands, the communicator being number 0; by the blocking form of the operation
_ROOT_AT = {
    "Bcast": 2, "bcast": 2, "Gather": 3, "Gatherv": 3, "Scatter": 3, "Scatterv": 3, "Reduce": 4, "gather": 2,
    "scatter": 2, "reduce": 3,
}  # fmt: skip
_REDUCTION_AT = {
    "Reduce": 3, "Allreduce": 3, "Reduce_scatter": 4, "Reduce_scatter_block": 3, "reduce": 2, "allreduce": 2,
}  # fmt: skip
_BUFFER_AT = {"Bcast": (1, "buf"), "Allreduce": (1, "sendbuf")}  # where both sides must give the same size


def watched_between_sides(
    function: Any, operation: Operation, name: str, watch: MpiWatch, *, active: bool | None = None
) -> Any:
    """Return the form of a collective for intercommunicators; it makes the call as it is if none is followed.

    `name` is that of the blocking form. `active` is None for that form itself, and says otherwise whether the call
    starts what its request stands for.
    """
    handle_of, followed, code = watch.handle_of, watch.intercommunicators.get, operation.code

    def call(*args: Any, **named: Any) -> Any:
        communicator, recorder = followed(handle_of(args[0])), SESSION.recorder
        if communicator is None or recorder is None:
            return function(*args, **named)
        try:
            root, reduction, (dtype, num_bytes, count) = _read(watch, communicator, name, args, named)
        except TypeError:  # wrong arguments: mpi4py says so better
            return function(*args, **named)
        if active is None:
            number = recorder.begin_collective(
                communicator, code, root, reduction, dtype, num_bytes, count, depth=CALLED_BY_HELPER
            )
            return make_blocked_call(recorder, number, function, args, named)
        request = recorder.requests.take()
        number = recorder.begin_collective(
            communicator, code, root, reduction, dtype, num_bytes, count, layout.NONBLOCKING, request,
            depth=CALLED_BY_HELPER,
        )  # fmt: skip
        request_made = post_request(recorder, number, request, function, args, named, active=active)
        return watch.requests.follow(request_made, PostedRequest(recorder, request, number, is_active=active))

    return call


def _read(
    watch: MpiWatch, communicator: Communicator, name: str, args: tuple[Any, ...], named: dict[str, Any]
) -> tuple[int, int, Size]:
    """Return root, reduction and size, as far as both sides must agree on them.

    On the side of the root only the root itself has arguments that matter: what others give there fits anything.
    """
    root = NOTHING
    if (at := _ROOT_AT.get(name)) is not None:
        given = whole_number(named["root"] if "root" in named else args[at] if len(args) > at else 0)
        if given == watch.mpi.PROC_NULL:
            return NOTHING, UNKNOWN_REDUCTION, UNKNOWN_SIZE
        if given != watch.mpi.ROOT and not 0 <= given < communicator.num_remote:
            # MPI refuses it on this rank alone, and the others never learn of the call: it has no position
            raise TypeError(f"the other side has no rank {given}")
        root = communicator.member if given == watch.mpi.ROOT else communicator.remote_begin + given
    reduction, size = REDUCTION_CODES["none"], UNKNOWN_SIZE
    if (at := _REDUCTION_AT.get(name)) is not None:
        reduction = watch.constants.reduction(named.get("op", args[at] if len(args) > at else None))
    if name in _BUFFER_AT:
        at, argument = _BUFFER_AT[name]
        size = watch.buffers.size(named[argument] if argument in named else args[at] if len(args) > at else None)
    return root, reduction, size


def member_on_other_side(communicator: Communicator, rank: int) -> int:
    """Return the number in the list of all members that a rank of the other side has; one that has none is nobody."""
    return communicator.remote_begin + rank if 0 <= rank < communicator.num_remote else encode_outsider(rank)


def messages_between_sides(function: Any, read: Callable[..., Any], follow: Callable[..., Any], watch: MpiWatch) -> Any:
    """Return the form of a message for intercommunicators; it makes the call as it is if none is followed."""
    handle_of, followed = watch.handle_of, watch.intercommunicators.get

    def call(*args: Any, **named: Any) -> Any:
        communicator, recorder = followed(handle_of(args[0])), SESSION.recorder
        if communicator is None or recorder is None:
            return function(*args, **named)
        try:
            arguments = read(*args, **named)
        except TypeError:
            return function(*args, **named)
        return follow(recorder, communicator, _across(communicator, arguments), args, named)

    return call


def _across(communicator: Communicator, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the arguments of a message with its peer, or both peers of an exchange, numbered among all members."""
    first, *others = arguments
    if isinstance(first, tuple):  # an exchange: what it sends, what it receives
        receive, *rest = others
        return (_across(communicator, first), _across(communicator, receive), *rest)
    return (member_on_other_side(communicator, first) if first >= 0 else first, *others)
