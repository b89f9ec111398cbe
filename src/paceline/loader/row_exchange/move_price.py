"""What it takes to move rows, as measured in earlier steps, and whether it pays. All ranks decide alike."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from statistics import median_low
from typing import Any

from paceline.errors import InputError

_REMEMBERED = 9  # moves
_LEFT_ALONE = 64  # steps, before rows are moved once more to measure: what slowed the last moves may be over


def check_seconds_per_cost(seconds: Any) -> None:
    """Refuse what cannot be the time that a unit of cost takes."""
    if seconds is not None and not (isinstance(seconds, int | float) and 0 <= seconds < float("inf")):
        raise InputError(f"seconds_per_cost must be a number of at least 0, got {seconds!r}")


class MovePrice:
    """Compares the time that a move saves with what earlier moves have taken.

    >>> price = MovePrice(seconds_per_cost=0.001)
    >>> price.note(seconds=0.5)
    >>> price.pays(saved=400, nanoseconds=[price.nanoseconds])
    False
    >>> price.pays(saved=600, nanoseconds=[price.nanoseconds])
    True

    Args:
        seconds_per_cost: What a unit of cost takes a rank; None if that is not known: then every move pays.
    """

    def __init__(self, seconds_per_cost: float | None) -> None:
        check_seconds_per_cost(seconds_per_cost)
        self._seconds_per_cost = seconds_per_cost
        self._moves: deque[int] = deque(maxlen=_REMEMBERED)
        self._num_left_alone = 0

    @property
    def nanoseconds(self) -> int:
        """What a move has taken this rank lately; 0 if there was none."""
        return median_low(self._moves) if self._moves else 0

    def note(self, seconds: float) -> None:
        """Note how long a move has taken."""
        self._moves.append(max(1, round(seconds * 1e9)))

    def leave_alone(self, num_steps: int) -> None:
        """Count steps that were left alone without asking whether to move. All ranks count the same."""
        self._num_left_alone += num_steps

    def gain(self, saved: float, nanoseconds: Sequence[int]) -> int | None:
        """Return the nanoseconds that a move saves, less what moves take; None if it is not known what costs mean.

        It is at least 0: a move that takes longer than it saves is made to measure, or for a rank that has no row.

        Args:
            saved: As for `pays`; 0 if nothing moved.
            nanoseconds: As for `pays`.
        """
        if self._seconds_per_cost is None:
            return None
        return max(0, round(saved * self._seconds_per_cost * 1e9) - min(nanoseconds)) if saved else 0

    def pays(self, saved: float, nanoseconds: Sequence[int]) -> bool:
        """Say whether to move, the same on every rank. The first move always pays: it shows what moving takes.

        Args:
            saved: The cost by which the heaviest rank would be lighter.
            nanoseconds: What each rank says of its last moves. The rank that came last to them waited least.
        """
        if self._seconds_per_cost is None:
            return True
        seconds_saved = saved * self._seconds_per_cost
        if seconds_saved <= 0:
            return False
        if seconds_saved * 1e9 > min(nanoseconds) or self._num_left_alone >= _LEFT_ALONE:
            self._num_left_alone = 0
            return True
        self._num_left_alone += 1
        return False
