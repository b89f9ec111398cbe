"""A stretch: positions of a communicator that follow each other, and the sums of the calls that one rank made there.

Stretches are aligned powers of two, so any two of them lie apart or one inside the other. Hosts need not agree on how
long theirs are: two halves add up to the whole. Numbers in, numbers out.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

MOST_LEVEL = 32  # the longest stretch has 2 ** 32 positions
MOST_NUMBER = 1 << 48
_TAIL = 4  # what is told at once may leave out about this part of what there is, at its end: so it is few stretches
_WORDS = struct.Struct("<3Q")
_MASK = (1 << 64) - 1
SUMS_BYTES = _WORDS.size


class Stretch(NamedTuple):
    """The positions from `begin` to before `end`, counted from 0: the n-th of all stretches that have 2 ** level."""

    level: int
    number: int

    @property
    def begin(self) -> int:
        """The first position."""
        return self.number << self.level

    @property
    def end(self) -> int:
        """The position after the last one."""
        return self.number + 1 << self.level

    @property
    def whole(self) -> Stretch:
        """The stretch of which it is a half."""
        return Stretch(self.level + 1, self.number >> 1)

    @property
    def halves(self) -> tuple[Stretch, Stretch]:
        """The two stretches that it is made of."""
        return Stretch(self.level - 1, 2 * self.number), Stretch(self.level - 1, 2 * self.number + 1)


class Sums(NamedTuple):
    """What one rank called in a stretch.

    Attributes:
        operations: Of the operations.
        arguments: Of roots, modes, reductions, element types, sizes and lists of ranks, as far as the rank knows them.
        unknown: Of where it does not know them: arguments of ranks that know the same can be compared.
    """

    operations: int
    arguments: int
    unknown: int

    def __add__(self, other: object) -> Sums:
        """Return the sums of two stretches together."""
        if not isinstance(other, Sums):
            return NotImplemented
        return Sums(*(mine + theirs & _MASK for mine, theirs in zip(self, other, strict=True)))

    def packed(self) -> bytes:
        """Return them as they travel."""
        return _WORDS.pack(*self)


def unpack_sums(content: bytes) -> Sums:
    """Return sums that have come in."""
    return Sums(*_WORDS.unpack(content))


def cut(begin: int, end: int, *, to_the_end: bool = False) -> Iterator[Stretch]:
    """Cut positions into few stretches, the longest that there is room for.

    Without `to_the_end`, a small part at the end is left for the next time.

    >>> [(each.begin, each.end) for each in cut(3, 13, to_the_end=True)]
    [(3, 4), (4, 8), (8, 12), (12, 13)]
    >>> [(each.begin, each.end) for each in cut(3, 13)]
    [(3, 4), (4, 8), (8, 12)]
    """
    least = 0 if to_the_end else _floor_level(max(1, (end - begin) // _TAIL))
    while begin < end:
        room = min(_floor_level(end - begin), MOST_LEVEL)
        aligned = _floor_level(begin & -begin) if begin else MOST_LEVEL
        if aligned > room and room < least:
            return
        found = Stretch(min(aligned, room), begin >> min(aligned, room))
        yield found
        begin = found.end


def _floor_level(length: int) -> int:
    return length.bit_length() - 1
