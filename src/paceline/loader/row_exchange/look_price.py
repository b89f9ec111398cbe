"""Whether it pays to look for rows that could move, as earlier steps have shown. All ranks decide alike."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from statistics import median_low

_LOOKS = 8  # that are compared with what they gained
_LONGEST = 256  # steps that are left alone at the most: the data may change


class LookPrice:
    """Compares what moves have saved lately with what it took to look for them, and says how many steps to leave alone.

    >>> price = LookPrice()
    >>> [price.steps_to_leave(gained=0, nanoseconds=[500, 900]) for _ in range(10)]
    [0, 0, 0, 0, 0, 0, 0, 8, 16, 32]
    >>> price.steps_to_leave(gained=10_000, nanoseconds=[500, 900])
    0
    """

    def __init__(self) -> None:
        self._looks: deque[int] = deque(maxlen=_LOOKS)  # what each has taken this rank
        self._gains: deque[int] = deque(maxlen=_LOOKS)  # of each, less what it took; the same on all ranks
        self._num_left = 0

    @property
    def nanoseconds(self) -> int:
        """What a look has taken this rank lately; 0 if there was none."""
        return median_low(self._looks) if self._looks else 0

    def note(self, seconds: float) -> None:
        """Note how long a look has taken."""
        self._looks.append(max(1, round(seconds * 1e9)))

    def steps_to_leave(self, gained: int, nanoseconds: Sequence[int]) -> int:
        """Say after a look how many of the steps that follow need none.

        Args:
            gained: The nanoseconds that the move of this step saves, less what it takes; 0 if nothing moved.
            nanoseconds: What each rank says of its last looks. The rank that came last to them waited least.
        """
        self._gains.append(gained - min(nanoseconds))
        if len(self._gains) < _LOOKS or sum(self._gains) >= 0:
            self._num_left = 0
        else:
            self._num_left = min(max(_LOOKS, 2 * self._num_left), _LONGEST)
        return self._num_left
