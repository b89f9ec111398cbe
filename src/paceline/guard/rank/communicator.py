"""A communicator of MPI or a group of torch, as one of its members keeps it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.board import Board, MessageBoard
from paceline.guard.shared_memory.pair_board import PairBoard
from paceline.guard.shared_memory.ring import Ring


class Half(NamedTuple):
    """What the identity of a communicator between two jobs is made of: whose it is, and how it was made there."""

    bridge: str  # the same on the members of one job: the call by which the two have met
    origin: str  # the same in both jobs: how it was made from the first communicator that they had


class Communicator:
    """What a rank keeps of one communicator.

    `identity` is the same on all members, `index` is this rank's own number for it in the ring, `member` is this rank's
    number among `ranks`, and `ranks` are the members' ranks in the job. Every call on it has `call_flags`.

    An intercommunicator has two sides: `ranks` are those of one side and then those of the other, in the same order on
    all members. A rank of the other side has the number `remote_begin` + its number there.

    Of a communicator that joins two jobs only the own half is known: `ranks` has OF_OTHER_JOB for members of the other
    job, and `half` tells it from others (see rank/mpi/sides/mpi_halves.py).
    """

    __slots__ = (
        "board", "board_member", "call_flags", "expected", "half", "identity", "index", "member", "messages", "name",
        "num_remote", "numbers", "pairs", "position_word", "ranks", "remote_begin",
    )  # fmt: skip

    def __init__(self, *, index: int, identity: str, name: str, member: int, ranks: tuple[int, ...]) -> None:
        self.index, self.identity, self.name, self.member, self.ranks = index, identity, name, member, ranks
        self.remote_begin, self.num_remote = 0, 0  # of an intercommunicator: where the other side is among `ranks`
        self.expected: dict[int, int] = {}  # expected_key of peer and tag -> receives posted and not complete
        self.numbers = itertools.count(1)  # of collectives: next() is atomic, so threads need no lock
        self.position_word = layout.COMMS_AT + index  # where the ring has the number of collectives begun
        self.call_flags = 0
        self.half: Half | None = None
        self.board: Board | None = None
        self.board_member: Any = None  # the same and `numbers`, as the compiled recorder has them
        self.messages: MessageBoard | None = None
        self.pairs: PairBoard | None = None  # of those that have made a call with a table of counts

    def step_back(self, sequence: int) -> bool:
        """Give the position of the last collective to the next one; say whether this was the last one."""
        if self.board_member is not None:
            return bool(self.board_member.step_back(sequence))
        self.numbers = itertools.count(sequence)
        return True


class CommunicatorSlots:
    """The numbers that communicators have in the ring. There is room for some, so those that are given up serve again.

    `forget` is told each number that comes to stand for another communicator.
    """

    def __init__(self, ring: Ring, forget: Callable[[int], None]) -> None:
        self._words, self._forget = ring.words, forget
        self._num_used = 0
        self._given_up: list[int] = []

    def take(self) -> int | None:
        """Return one that was never used, or that was given up longest ago; None if there is none."""
        if self._num_used < layout.MAX_COMMS:
            self._num_used += 1
            return self._num_used - 1
        if not self._given_up:
            return None
        index = self._given_up.pop(0)
        self._words[layout.COMMS_AT + index] = self._words[layout.FREED_AT + index] = 0
        self._forget(index)
        return index

    def give_up(self, index: int) -> None:
        """Let a number serve again."""
        self._given_up.append(index)
