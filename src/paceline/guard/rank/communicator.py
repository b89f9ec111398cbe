"""A communicator or group, as one rank keeps it."""

from __future__ import annotations

import itertools

from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.board import Board, MessageBoard


class Communicator:
    """What a rank keeps of one communicator."""

    __slots__ = (
        "board",
        "expected",
        "identity",
        "index",
        "member",
        "messages",
        "name",
        "numbers",
        "position_word",
        "ranks",
    )

    def __init__(self, *, index: int, identity: str, name: str, member: int, ranks: tuple[int, ...]) -> None:
        self.index, self.identity, self.name, self.member, self.ranks = index, identity, name, member, ranks
        self.expected: dict[tuple[int, int], int] = {}  # (peer, tag) -> receives posted and not complete
        self.numbers = itertools.count(1)
        self.position_word = layout.COMMS_AT + index
        self.board: Board | None = None
        self.messages: MessageBoard | None = None
