"""The board on which the members of a window show each other which bytes they have reached for: puts, gets, updates.

Each member has a head, which says how large its part of the window is, and a ring of its last accesses. Nobody locks. A
record says its own number, which its writer takes away before it writes the rest: so a reader never takes half a record
for a whole one, and misses those that others have overwritten.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import NamedTuple

from paceline.guard.shared_memory.board import open_words
from paceline.guard.shared_memory.record_fields import WORD

# what an access does with the bytes at its target
READS, WRITES, UPDATES = 0, 1, 2
# what orders it: fences of all, an epoch between groups, or a lock
BY_FENCE, BY_GROUP, BY_LOCK = 1, 2, 3
MOST_MEMBERS = 128  # larger windows have no such board
NUM_ACCESSES = 128  # of one member, a power of two
_HEAD_WORDS = 4  # accesses written, bytes of the part of this member, bytes of one displacement; the last is spare
_RECORD = struct.Struct("<QQQQQQiIHBBBB?x")  # the number first
_RECORD_WORDS = -(-_RECORD.size // WORD)
_MEMBER_WORDS = _HEAD_WORDS + NUM_ACCESSES * _RECORD_WORDS


class Access(NamedTuple):
    """One access of a member to bytes of a window."""

    origin: int  # who reaches out, as a number in the window
    target: int  # whose memory it is
    begin: int  # bytes from the begin of the target's part
    end: int
    does: int  # READS, WRITES or UPDATES
    reduction: int = 0  # of an update
    dtype: int = 0  # of an update
    site: int = 0
    operation: int = 0
    order: int = BY_FENCE
    # The number of its epoch, twice; under a lock the positions on the communicator of the window at which it was made
    # and completed.
    first: int = 0
    last: int = 0
    # under a lock: from its completion to the next position of that communicator the origin told nobody anything
    is_last_word: bool = False
    content: int = 0  # stands for the bytes that are written; 0: not known


class AccessBoard:
    """The board of one window, as one member writes and reads it."""

    def __init__(self, path: Path, member: int, num_members: int) -> None:
        self._words = open_words(path, num_members * _MEMBER_WORDS * WORD)
        self._bytes = self._words.cast("B")
        self._member, self._num_members = member, num_members
        self._num_read = [0] * num_members

    def open_part(self, num_bytes: int, unit: int) -> None:
        """Say how large this member's part of the window is, and how many bytes a displacement stands for."""
        head = self._member * _MEMBER_WORDS
        self._words[head + 1], self._words[head + 2] = num_bytes, unit

    def part(self, member: int) -> tuple[int, int]:
        """Return the bytes of a member's part and of one displacement there; zeros if it has not said so."""
        head = member * _MEMBER_WORDS
        return self._words[head + 1], self._words[head + 2]

    def show(self, access: Access) -> None:
        """Show an access of this member to the others."""
        head = self._member * _MEMBER_WORDS
        number = self._words[head]
        word = _record_word(self._member, number)
        self._words[word] = 0
        _RECORD.pack_into(self._bytes, word * WORD, 0, *_packed(access))
        self._words[word] = number + 1
        self._words[head] = number + 1

    def news(self) -> list[Access]:
        """Return what other members have shown since the last time, as far as it is still there."""
        found: list[Access] = []
        for member in range(self._num_members):
            written = self._words[member * _MEMBER_WORDS] if member != self._member else 0
            for number in range(max(self._num_read[member], written - NUM_ACCESSES), written):
                access = self._read(member, number)
                if access is not None:
                    found.append(access)
            self._num_read[member] = written
        return found

    def _read(self, member: int, number: int) -> Access | None:
        word = _record_word(member, number)
        found, begin, end, first, last, content, target, *others, is_last_word = _RECORD.unpack_from(
            self._bytes, word * WORD
        )
        if found != number + 1 or self._words[word] != number + 1:
            return None
        site, operation, does, reduction, dtype, order = others
        return Access(
            origin=member, target=target, begin=begin, end=end, does=does, reduction=reduction, dtype=dtype, site=site,
            operation=operation, order=order, first=first, last=last, is_last_word=is_last_word,
            content=content,
        )  # fmt: skip


def _record_word(member: int, number: int) -> int:
    return member * _MEMBER_WORDS + _HEAD_WORDS + (number & (NUM_ACCESSES - 1)) * _RECORD_WORDS


def _packed(access: Access) -> tuple[int, ...]:
    return (
        access.begin, access.end, access.first, access.last, access.content, access.target, access.site,
        access.operation, access.does, access.reduction, access.dtype, access.order, access.is_last_word,
    )  # fmt: skip
