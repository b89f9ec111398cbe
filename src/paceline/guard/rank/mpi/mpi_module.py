"""What is shared by all that watches mpi4py: its readers, and which communicators and requests are followed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from paceline.guard.rank.communicator import Communicator
from paceline.guard.rank.mpi.mpi_buffers import Buffers
from paceline.guard.rank.mpi.mpi_constants import MpiConstants
from paceline.guard.rank.mpi.mpi_requests import FollowedRequests
from paceline.guard.rank.mpi.replaced_methods import named_like, own_method
from paceline.guard.rank.watched_process import SESSION, identity_of
from paceline.guard.shared_memory.operations import BY_NAME


class MpiWatch:
    """What is known of one mpi4py module."""

    def __init__(self, mpi: Any) -> None:
        self.mpi = mpi
        self.buffers = Buffers(mpi)
        self.constants = MpiConstants(mpi)
        self.requests = FollowedRequests()
        # Those that are followed, by MPI's handle: one that is reached by several objects is one. No object of mpi4py
        # is kept. A handle that is freed is taken out, since MPI gives it to another communicator afterwards.
        self.communicators: dict[int, Communicator] = {}
        # not `comm.handle`: a class of the user's may have another attribute of this name
        self.handle_of: Callable[[Any], int] = vars(mpi.Comm)["handle"].__get__

    def job_ranks(self, group: Any) -> tuple[int, ...]:
        """Return the ranks of a group in COMM_WORLD; a negative number for a process that is not in it."""
        world_group = self.mpi.COMM_WORLD.Get_group()
        ranks = self.mpi.Group.Translate_ranks(group, range(group.Get_size()), world_group)
        world_group.Free()
        return tuple(ranks)

    def adopt(self, new: Any, parent: Communicator, sequence: object, label: str) -> None:
        """Follow a communicator that was just made.

        Its identity must be the same on all members: so it is made from the call that made it and from its ranks.
        """
        recorder, kind = SESSION.recorder, self.mpi.Comm
        if recorder is None or not new or kind.Is_inter(new):
            return
        group = kind.Get_group(new)
        ranks = self.job_ranks(group)
        group.Free()
        if any(rank < 0 for rank in ranks):
            return  # it has members of another job, which we cannot see
        identity = identity_of(parent.identity, sequence, ranks)
        communicator = recorder.communicator(identity, label, ranks, kind.Get_rank(new))
        if communicator is not None:
            self.communicators[self.handle_of(new)] = communicator


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

    def call(*args: Any, **named: Any) -> Any:
        communicator, recorder = followed(handle_of(args[0])), SESSION.recorder
        if communicator is None or recorder is None:
            return function(*args, **named)
        try:
            arguments = read(*args, **named)
        except TypeError:
            return function(*args, **named)
        return follow(recorder, communicator, arguments, args, named)

    return named_like(call, function)
