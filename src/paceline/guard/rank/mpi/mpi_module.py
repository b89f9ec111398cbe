"""What is shared by all that watches mpi4py: its readers, its watched classes, and how a new communicator is added."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from paceline.guard.rank.communicator import Communicator
from paceline.guard.rank.mpi.lookalike import named_like
from paceline.guard.rank.mpi.mpi_buffers import Buffers
from paceline.guard.rank.mpi.mpi_constants import MpiConstants
from paceline.guard.rank.mpi.mpi_requests import watch_requests
from paceline.guard.rank.watched_process import SESSION, identity_of


class MpiWatch:
    """What is known of one mpi4py module."""

    def __init__(self, mpi: Any) -> None:
        self.mpi = mpi
        self.buffers = Buffers(mpi)
        self.constants = MpiConstants(mpi)
        self.requests = watch_requests(mpi)
        self.classes: dict[type, type] = {}  # mpi4py's class -> its watched form

    def job_ranks(self, group: Any) -> tuple[int, ...]:
        """Return the ranks of a group in COMM_WORLD; a negative number for a process that is not in it."""
        world_group = self.mpi.COMM_WORLD.Get_group()
        ranks = self.mpi.Group.Translate_ranks(group, range(group.Get_size()), world_group)
        world_group.Free()
        return tuple(ranks)

    def adopt(self, new: Any, parent: Communicator, sequence: object, label: str) -> Any:
        """Return a communicator that was just made as a watched one.

        Its identity must be the same on all members: so it is made from the call that made it and from its ranks.
        """
        recorder = SESSION.recorder
        if recorder is None or new is None or new == self.mpi.COMM_NULL or new.Is_inter():
            return new
        kind = self.classes.get(type(new), type(new))
        watched: Any = new if type(new) is kind else kind(new)
        group = new.Get_group()
        ranks = self.job_ranks(group)
        group.Free()
        if any(rank < 0 for rank in ranks):
            return watched  # it has members of another job, which we cannot see
        identity = identity_of(parent.identity, sequence, ranks)
        watched._paceline = recorder.communicator(identity, label, ranks, new.Get_rank())
        return watched


def watched_method(function: Any, read: Callable[..., Any], follow: Callable[..., Any]) -> Any:
    """Return a method that reads its arguments and then records and makes the call: `follow` does both.

    It calls `follow(recorder, communicator, what_was_read, args, named)`. A communicator that is not followed, and
    arguments that cannot be read, go straight to mpi4py, which says better what is wrong with them.
    """

    def call(*args: Any, **named: Any) -> Any:
        communicator, recorder = args[0]._paceline, SESSION.recorder
        if communicator is None or recorder is None:
            return function(*args, **named)
        try:
            arguments = read(*args, **named)
        except TypeError:
            return function(*args, **named)
        return follow(recorder, communicator, arguments, args, named)

    return named_like(call, function)
