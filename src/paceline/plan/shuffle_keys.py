"""Keys for shuffles: 64-bit words mixed from a seed, an epoch and whatever else tells two orders apart.

The words are mixed one after the other and never added: (seed 1, epoch 0) is not (seed 0, epoch 1).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_MASK = 0xFFFF_FFFF_FFFF_FFFF
_STRIDE = 0x9E37_79B9_7F4A_7C15  # SplitMix64: the golden ratio in 64 bits
_FIRST, _SECOND = 0xBF58_476D_1CE4_E5B9, 0x94D0_49BB_1331_11EB


def fold(*words: int) -> int:
    """Mix words of up to 64 bits into one key; their order matters.

    >>> fold(0, 1) == fold(1, 0)
    False
    """
    state = 0
    for word in words:
        state = _mix(((state ^ word) + _STRIDE) & _MASK)
    return state


def random_words(key: int, counters: NDArray[np.uint64]) -> NDArray[np.uint32]:
    """Return the 32-bit words at the given positions of the key's random stream."""
    state = counters * np.uint64(_STRIDE) + np.uint64(key)
    state ^= state >> np.uint64(30)
    state *= np.uint64(_FIRST)
    state ^= state >> np.uint64(27)
    state *= np.uint64(_SECOND)
    state ^= state >> np.uint64(31)
    return (state >> np.uint64(32)).astype(np.uint32)


def _mix(state: int) -> int:
    state = ((state ^ (state >> 30)) * _FIRST) & _MASK
    state = ((state ^ (state >> 27)) * _SECOND) & _MASK
    return state ^ (state >> 31)
