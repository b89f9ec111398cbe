"""The classic wrong plan, for comparison: ceil(N/W) samples for each rank, the last ranks clamped to what is left."""

from __future__ import annotations

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
