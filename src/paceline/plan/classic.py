"""The classic wrong plans, for comparison: ranks that share out samples by themselves and make unequal steps."""

from __future__ import annotations

from typing import Any

from paceline.errors import whole_number


def clamped_batches(num_samples: int, *, world_size: int, batch_size: int) -> list[int]:
    """Return how many full batches each rank makes when it takes the next ceil(N/W) samples that there are.

    >>> clamped_batches(100, world_size=7, batch_size=3)
    [5, 5, 5, 5, 5, 5, 3]
    """
    num_samples = whole_number("num_samples", num_samples, least=1)
    world_size = whole_number("world_size", world_size, least=1)
    batch_size = whole_number("batch_size", batch_size, least=1)
    share = -(-num_samples // world_size)
    taken = [max(0, min(share, num_samples - rank * share)) for rank in range(world_size)]
    return [samples // batch_size for samples in taken]


def packs_in_turn(lengths: Any, *, world_size: int, max_tokens: int) -> list[int]:
    """Return how many packs each rank makes of every W-th sample, if it begins a new one when the next does not fit.

    A sample longer than a pack fills those that it needs.

    >>> packs_in_turn([5, 3, 4, 4, 7, 1, 2, 6], world_size=2, max_tokens=8)
    [4, 2]
    """
    world_size = whole_number("world_size", world_size, least=1)
    max_tokens = whole_number("max_tokens", max_tokens, least=1)
    counts = []
    for rank in range(world_size):
        room = count = 0
        for length in lengths[rank::world_size]:
            if length > room:
                more = -(-int(length) // max_tokens)
                count, room = count + more, more * max_tokens
            room -= int(length)
        counts.append(count)
    return counts
