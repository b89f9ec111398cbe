"""The board of pairs: what each member of a communicator sends every other, and what it expects from every other.

Calls such as Alltoallv take a table of counts. Rows of one table need not be equal to those of another, but what one
member sends must be what the other expects. A row of the board holds the tables of one position: for each member the
position that it wrote its tables for, then all `sends`, then all `expects`, one word for each pair, packed as
`board.pack_size` does. A pair that exchanges nothing has 0 on both sides, and what is not known fits everything.

The first word of the file is the number of members. Nobody locks. A member takes its position away before it writes its
tables, and a reader looks at positions after the tables: so it never takes half a table for a whole one.
"""

from __future__ import annotations

import struct
from pathlib import Path

from paceline.guard.shared_memory.board import open_words, sizes_differ
from paceline.guard.shared_memory.layout import UNKNOWN_BYTES
from paceline.guard.shared_memory.record_fields import WORD

UNKNOWN_AMOUNT = UNKNOWN_BYTES  # a pair of which a member does not know how much it exchanges
PAIR_HEAD_WORDS = 8
MAX_PAIR_MEMBERS = 128  # tables grow with the square of the members: larger communicators have no such board
_MOST_ROWS = 64
_MOST_BYTES = 1 << 20

Table = tuple[list[int], list[int]]  # what a member sends to each other, and expects from each, as words


def pair_row_words(num_members: int) -> int:
    """Return the words of one row."""
    return num_members + 2 * num_members * num_members


def num_pair_rows(num_members: int) -> int:
    """Return how many positions the board of a communicator shows: a power of two.

    >>> num_pair_rows(2), num_pair_rows(32), num_pair_rows(MAX_PAIR_MEMBERS)
    (64, 32, 2)
    """
    rows = _MOST_ROWS
    while rows > 2 and rows * pair_row_words(num_members) * WORD > _MOST_BYTES:
        rows //= 2
    return rows


class PairBoard:
    """The board of one communicator, as one member writes and reads it."""

    __slots__ = ("_bytes", "_member", "_num_members", "_pack", "_row_mask", "_words")

    def __init__(self, path: Path, member: int, num_members: int) -> None:
        num_rows = num_pair_rows(num_members)
        self._words = open_words(path, (PAIR_HEAD_WORDS + num_rows * pair_row_words(num_members)) * WORD)
        self._bytes = self._words.cast("B")
        self._words[0] = num_members
        self._pack = struct.Struct(f"={num_members}Q").pack_into
        self._member, self._num_members, self._row_mask = member, num_members, num_rows - 1

    def withdraw(self, sequence: int) -> None:
        """Take back what this member has written at a position."""
        word = PAIR_HEAD_WORDS + (sequence & self._row_mask) * pair_row_words(self._num_members) + self._member
        if self._words[word] == sequence:
            self._words[word] = 0

    def meet(self, sequence: int, table: Table) -> int:
        """Write what this member sends and expects; return a member with which that does not fit, or -1."""
        words, num, member = self._words, self._num_members, self._member
        sends, expects = table
        row = PAIR_HEAD_WORDS + (sequence & self._row_mask) * pair_row_words(num)
        all_sends = row + num
        all_expects = all_sends + num * num
        end = all_expects + num * num
        words[row + member] = 0
        self._pack(self._bytes, (all_sends + member * num) * WORD, *sends)
        self._pack(self._bytes, (all_expects + member * num) * WORD, *expects)
        words[row + member] = sequence
        expected = words[all_expects + member : end : num].tolist()  # what each member expects from this one
        sent = words[all_sends + member : all_expects : num].tolist()  # what each member sends to this one
        if expected == sends and sent == expects:
            return -1
        there = words[row:all_sends].tolist()
        for other in range(num):
            if there[other] == sequence and (
                sizes_differ(sends[other], expected[other]) or sizes_differ(sent[other], expects[other])
            ):
                return other
        return -1
