"""Tables of counts as values: what a member of a communicator sends to each other member, and expects from each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

# of the names of element types, those whose last digits are not their size in bytes
_ITEM_BYTES = {"bf16": 2, "f8e4m3": 1, "f8e5m2": 1}


class Amount(NamedTuple):
    """What one member sends another, or expects from it: the element type ("any") and the bytes (-1: not known)."""

    dtype: str
    num_bytes: int

    @property
    def num_elements(self) -> int | None:
        """The number of elements; None if their type is not known.

        >>> Amount("f4", 8).num_elements, Amount("bf16", 8).num_elements, Amount("any", 8).num_elements
        (2, 4, None)
        """
        if self.num_bytes == 0:
            return 0
        if self.dtype == "any" or self.num_bytes < 0:
            return None
        return self.num_bytes // (_ITEM_BYTES.get(self.dtype) or int(self.dtype[1:]))

    def differs(self, other: Amount) -> bool:
        """Say whether two amounts are certainly not the same. What is not known fits everything.

        >>> Amount("f4", 8).differs(Amount("any", 8)), Amount("f4", 8).differs(Amount("i4", 8))
        (False, True)
        """
        return self.has_other_type(other) or (-1 not in (self.num_bytes, other.num_bytes) and self[1] != other[1])

    def has_other_type(self, other: Amount) -> bool:
        """Say whether the element types differ. Nothing at all has no type."""
        if self.num_bytes == 0 or other.num_bytes == 0 or "any" in (self.dtype, other.dtype):
            return False
        return self.dtype != other.dtype


@dataclass(frozen=True, slots=True, kw_only=True)
class CountTable:
    """The table of one member, by the number of the other: itself too."""

    sends: tuple[Amount, ...]
    expects: tuple[Amount, ...]


class UnequalPair(NamedTuple):
    """A member that sends another amount than its receiver expects, by their numbers in the communicator."""

    sender: int
    receiver: int
    sent: Amount
    expected: Amount


def unequal_pairs(tables: Mapping[int, CountTable]) -> Iterator[UnequalPair]:
    """Return the pairs that do not fit, as far as both sides are there."""
    for sender, table in sorted(tables.items()):
        for receiver, sent in enumerate(table.sends):
            other = tables.get(receiver)
            if other is not None and sent.differs(other.expects[sender]):
                yield UnequalPair(sender, receiver, sent, other.expects[sender])
