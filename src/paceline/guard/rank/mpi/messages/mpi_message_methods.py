"""How the methods of mpi4py that send, receive or probe become watched ones: mpi_messages.py says what each records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from paceline.guard.rank.mpi.mpi_module import MpiWatch
from paceline.guard.rank.mpi.replaced_methods import named_like, own_method
from paceline.guard.rank.mpi.sides.mpi_intercommunicators import messages_between_sides
from paceline.guard.rank.watched_process import SESSION
from paceline.guard.shared_memory.operations import BY_NAME

# names of operations, and what makes `follow` for one of them from mpi4py's function and the operation's code
MessageKinds = Sequence[tuple[tuple[str, ...], Callable[[Any, int, MpiWatch], Callable[..., Any]]]]


def watched_methods(
    base: Any, reads: Mapping[str, Callable[..., Any]], kinds: MessageKinds, watch: MpiWatch
) -> dict[str, Any]:
    """Return the watched forms of those of these operations that a class defines."""
    members = {}
    for names, kind in kinds:
        for name in names:
            if (function := own_method(base, name)) is not None:
                members[name] = watched_method(function, reads[name], kind(function, code_of(name), watch), watch)
    return members


def code_of(name: str) -> int:
    """Return the code of an operation; 0 for one that does not wait, and so is not recorded."""
    return BY_NAME[name].code if name in BY_NAME else 0


def watched_method(function: Any, read: Callable[..., Any], follow: Callable[..., Any], watch: MpiWatch) -> Any:
    """Return a method that reads its arguments and then records and makes the call: `follow` does both.

    It calls `follow(recorder, communicator, what_was_read, args, named)`. A communicator that is not followed, and
    arguments that cannot be read, go straight to mpi4py, which says better what is wrong with them.
    """
    followed, handle_of = watch.communicators.get, watch.handle_of
    between_sides = messages_between_sides(function, read, follow, watch)

    def call(*args: Any, **named: Any) -> Any:
        communicator, recorder = followed(handle_of(args[0])), SESSION.recorder
        if communicator is None or recorder is None:
            return between_sides(*args, **named)
        try:
            arguments = read(*args, **named)
        except TypeError:
            return function(*args, **named)
        return follow(recorder, communicator, arguments, args, named)

    return named_like(call, function)
