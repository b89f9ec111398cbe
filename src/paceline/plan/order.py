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

from paceline.plan.shuffle_keys import random_words, round_keys

Ids = NDArray[np.int64]

LARGEST_TABLE = 65_536  # entries of a table fit uint16: 128 KiB
LARGEST_SIZE = 1 << 62
_NUM_ROUNDS = 6
_BLOCK = 16_384  # positions worked on at a time: the scratch arrays stay in the cache


class Order(Protocol):
    """A bijection between the positions of an epoch and the samples."""

    def samples_at(self, positions: Ids) -> Ids:
        """Return the samples that stand at the positions."""

    def positions_of(self, samples: Ids) -> Ids:
        """Return the positions at which the samples stand."""


def make_order(size: int, key: int | None) -> Order:
    """Return the order of `size` samples under the key; without a key, the samples in their own order.

    >>> order = make_order(5, key=1)
    >>> sorted(order.samples_at(np.arange(5)).tolist())
    [0, 1, 2, 3, 4]
    """
    if key is None:
        return Straight()
    if size <= LARGEST_TABLE:
        return Table(size=size, key=key)
    return Feistel(size=size, key=key)


@dataclass(frozen=True, slots=True)
class Straight:
    """The order without a shuffle: sample i at position i."""

    def samples_at(self, positions: Ids) -> Ids:
        """Return the positions themselves."""
        return positions

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

    def positions_of(self, samples: Ids) -> Ids:
        """Look the samples up in the inverse table."""
        inverse = np.empty(self.size, dtype=np.int64)
        inverse[_fisher_yates(self.size, self.key)] = np.arange(self.size)
        return inverse[samples]


@lru_cache(maxsize=128)  # a plan over length buckets has a table for each bucket; 16 MiB at the most
def _fisher_yates(size: int, key: int) -> NDArray[np.uint16]:
    partners = _partners(size, key).tolist()
    table = list(range(size))
    for last, partner in zip(range(size - 1, 0, -1), partners, strict=True):
        table[last], table[partner] = table[partner], table[last]
    array = np.array(table, dtype=np.uint16)
    array.setflags(write=False)
    return array


def _partners(size: int, key: int) -> NDArray[np.int64]:
    """Draw, for each index from the last down to 1, a partner from 0 to the index itself, without bias."""
    ranges = np.arange(size, 1, -1, dtype=np.uint64)
    counters = ranges.copy()
    partners = np.zeros(ranges.size, dtype=np.int64)
    pending = np.arange(ranges.size)
    while pending.size:
        span = ranges[pending]
        scaled = random_words(key, counters[pending]).astype(np.uint64) * span
        partners[pending] = scaled >> np.uint64(32)
        # scaling 32 random bits to `span` values favours some of them unless the lowest products are redrawn
        biased = (scaled & np.uint64(0xFFFF_FFFF)) < np.uint64(1 << 32) % span
        pending = pending[biased]
        counters[pending] += np.uint64(LARGEST_TABLE)
    return partners


@dataclass(frozen=True, slots=True, kw_only=True)
class Feistel:
    """A keyed bijection by a six-round Feistel network with cycle walking.

    A position is split into a low half of `_low_bits` bits and a high half below `_num_high`. Rounds alternate:
    the low half is xor-ed, the high half is shifted modulo `_num_high`. The network thus permutes
    `_num_high << _low_bits` numbers, at most 2 sqrt(size) more than `size`, and walking out of range is rare
    for every size, not only for sizes just below a power of two.
    """

    size: int
    key: int

    @property
    def _low_bits(self) -> int:
        return ((self.size - 1).bit_length() + 1) // 2

    @property
    def _num_high(self) -> int:
        return -(-self.size >> self._low_bits)

    def samples_at(self, positions: Ids) -> Ids:
        """Send the positions forward through the network."""
        return self._walk(positions, range(_NUM_ROUNDS))

    def positions_of(self, samples: Ids) -> Ids:
        """Send the samples backward through the network."""
        return self._walk(samples, range(_NUM_ROUNDS - 1, -1, -1))

    def _walk(self, numbers: Ids, rounds: range) -> Ids:
        """Permute numbers, and again those that land at or beyond `size`, until all are in range."""
        keys = round_keys(self.key, _NUM_ROUNDS)
        flat = numbers.reshape(-1)
        result = np.empty(flat.shape, dtype=np.int64)
        for start in range(0, flat.size, _BLOCK):
            block = self._permute(flat[start : start + _BLOCK], keys, rounds)
            outside = np.flatnonzero(block >= self.size)
            while outside.size:  # each walks along its cycle, which must come back into range
                block[outside] = self._permute(block[outside], keys, rounds)
                outside = outside[block[outside] >= self.size]
            result[start : start + _BLOCK] = block
        return result.reshape(numbers.shape)

    def _permute(self, numbers: Ids, keys: NDArray[np.uint32], rounds: range) -> Ids:
        low_bits, num_high = self._low_bits, np.uint32(self._num_high)
        backward = rounds.step < 0
        low = (numbers & ((1 << low_bits) - 1)).astype(np.uint32)
        high = (numbers >> low_bits).astype(np.uint32)
        for number in rounds:  # the same rounds in reverse undo them
            if number % 2 == 0:
                mask = _scramble(high ^ keys[number])
                mask >>= np.uint32(32 - low_bits)
                low ^= mask
            else:
                wide = _scramble(low ^ keys[number]).astype(np.uint64)
                wide *= np.uint64(num_high)
                wide >>= np.uint64(32)
                shift = wide.astype(np.uint32)
                high += num_high - shift if backward else shift
                # high modulo num_high: where high < num_high, the difference wraps to a large number
                np.minimum(high, high - num_high, out=high)
        return (high.astype(np.int64) << low_bits) | low.astype(np.int64)


def _scramble(words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Hash each word to 32 bits, in place (two multiply-xorshift rounds with low bias)."""
    words ^= words >> np.uint32(16)
    words *= np.uint32(0x7FEB_352D)
    words ^= words >> np.uint32(15)
    words *= np.uint32(0x846C_A68B)
    words ^= words >> np.uint32(16)
    return words
