"""Orders of an epoch: bijections of range(size), with their inverse, in memory that does not grow with size.

Up to 65,536 samples an order is an exact Fisher-Yates shuffle. Above, it is a keyed Feistel network:
each position is computed on its own, so that any rank can start anywhere. Only integer arithmetic and our
own key stream are used, so an order is the same on every machine and with every version of numpy.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from paceline.compiled import extension

Ids = NDArray[np.int64]

LARGEST_TABLE = 65_536  # entries of a table fit uint16: 128 KiB


class Order(Protocol):
    """A bijection between the positions of an epoch and the samples."""

    def samples_at(self, positions: Ids) -> Ids:
        """Return the samples that stand at the positions."""

    def samples_along(self, begin: int, stride: int, into: Ids) -> None:
        """Write the samples at `begin`, `begin + stride` and so on, each position taken modulo the size."""

    def positions_of(self, samples: Ids) -> Ids:
        """Return the positions at which the samples stand."""


def make_order(size: int, key: int | None) -> Order:
    """Return the order of `size` samples under the key; without a key, the samples in their own order.

    >>> order = make_order(5, key=1)
    >>> sorted(order.samples_at(np.arange(5)).tolist())
    [0, 1, 2, 3, 4]
    """
    if key is None:
        return Straight(size=size)
    if size <= LARGEST_TABLE:
        return Table(size=size, key=key)
    return Feistel(size=size, key=key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Straight:
    """The order without a shuffle: sample i at position i."""

    size: int

    def samples_at(self, positions: Ids) -> Ids:
        """Return the positions themselves."""
        return positions

    def samples_along(self, begin: int, stride: int, into: Ids) -> None:
        """Write the positions themselves."""
        into[...] = _positions_along(begin, stride, into.size, self.size)

    def positions_of(self, samples: Ids) -> Ids:
        """Return the samples themselves."""
        return samples


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """An exact Fisher-Yates shuffle, kept as a table."""

    size: int
    key: int

    def samples_at(self, positions: Ids) -> Ids:
        """Look the positions up."""
        return _fisher_yates(self.size, self.key)[positions].astype(np.int64)

    def samples_along(self, begin: int, stride: int, into: Ids) -> None:
        """Look the positions up."""
        into[...] = _fisher_yates(self.size, self.key)[_positions_along(begin, stride, into.size, self.size)]

    def positions_of(self, samples: Ids) -> Ids:
        """Look the samples up in the inverse table."""
        inverse = np.empty(self.size, dtype=np.int64)
        inverse[_fisher_yates(self.size, self.key)] = np.arange(self.size)
        return inverse[samples]


def _positions_along(begin: int, stride: int, count: int, size: int) -> Ids:
    positions = np.arange(begin, begin + count * stride, stride, dtype=np.int64)
    if count and positions[-1] >= size:
        positions %= size
    return positions


@lru_cache(maxsize=128)  # a plan over length buckets has a table for each bucket; 16 MiB at the most
def _fisher_yates(size: int, key: int) -> NDArray[np.uint16]:
    table = np.empty(size, dtype=np.uint16)
    extension.shuffle_table(table, key)
    table.setflags(write=False)
    return table


@dataclass(frozen=True, slots=True, kw_only=True)
class Feistel:
    """A keyed bijection by a six-round Feistel network with cycle walking.

    A position is split into a low half of about half of its bits, b, and a high half below h = size / 2^b, rounded up.
    Rounds alternate: the low half is xor-ed, the high half is shifted modulo h. The network thus permutes h 2^b
    numbers, at most 2 sqrt(size) more than `size`, and walking out of range is rare for every size, not only for sizes
    just below a power of two.
    """

    size: int
    key: int

    def samples_at(self, positions: Ids) -> Ids:
        """Send the positions forward through the network."""
        return self._permuted(positions, backward=False)

    def samples_along(self, begin: int, stride: int, into: Ids) -> None:
        """Send the positions forward through the network."""
        extension.permute_along(begin, stride, self.size, self.key, into)

    def positions_of(self, samples: Ids) -> Ids:
        """Send the samples backward through the network."""
        return self._permuted(samples, backward=True)

    def _permuted(self, numbers: Ids, *, backward: bool) -> Ids:
        result = np.empty(numbers.shape, dtype=np.int64)
        extension.permute(np.ascontiguousarray(numbers, dtype=np.int64), self.size, self.key, backward, result)
        return result
