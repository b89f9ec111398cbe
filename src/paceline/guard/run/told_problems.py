"""What could not be watched, told while the job runs: a job that hangs has no end at which to say it."""

from __future__ import annotations

import time
from collections.abc import Callable

from paceline.guard.observe.local_rings import LocalRings

_EVERY_SECONDS = 1.0


class ToldProblems:
    """Tells each problem once.

    Args:
        rings: What ranks have left word of.
        tell: Tells one.
    """

    def __init__(self, rings: LocalRings, tell: Callable[[str], None]) -> None:
        self._rings, self._tell = rings, tell
        self._seen: list[str] = []
        self._told: list[str] = []
        self._next = 0.0

    def look(self) -> None:
        """Tell what has been there for a moment: a rank may still be about to write its word."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _EVERY_SECONDS
        before, self._seen = self._seen, self._rings.problems()
        self._tell_new([problem for problem in self._seen if problem in before])

    def tell_rest(self) -> tuple[str, ...]:
        """Tell what is left, once the job has ended; return everything that could not be watched."""
        problems = self._rings.problems()
        self._tell_new(problems)
        return tuple(problems)

    def _tell_new(self, problems: list[str]) -> None:
        for problem in problems:
            if problem not in self._told:
                self._told.append(problem)
                self._tell(problem)
