"""A communicator of MPI or a group of torch, as one of its members keeps it."""

from __future__ import annotations

import itertools

from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.board import Board, MessageBoard


class Communicator:
    """What a rank keeps of one communicator.

    `identity` is the same on all members, `index` is this rank's own number for it in the ring, `member` is this rank's
    number among `ranks`, and `ranks` are the members' ranks in the job.
    """

    __slots__ = (
        "board", "expected", "identity", "index", "member", "messages", "name", "numbers", "position_word", "ranks",
    )  # fmt: skip

    def __init__(self, *, index: int, identity: str, name: str, member: int, ranks: tuple[int, ...]) -> None:
        self.index, self.identity, self.name, self.member, self.ranks = index, identity, name, member, ranks
        self.expected: dict[tuple[int, int], int] = {}  # (peer, tag) -> receives posted and not complete
        self.numbers = itertools.count(1)  # of collectives: next() is atomic, so threads need no lock
        self.position_word = layout.COMMS_AT + index  # where the ring has the number of collectives begun
        self.board: Board | None = None
        self.messages: MessageBoard | None = None
