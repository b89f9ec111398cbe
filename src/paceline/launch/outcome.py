"""What became of a rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from paceline.errors import PacelineError


class RankError(PacelineError):
    """A rank's own exception that could not travel, or the reason why a rank was ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How one rank ended.

    Attributes:
        rank: Which rank.
        value: What the function returned.
        error: The exception that ended it; or a RankError that says why it was ended from outside.
        traceback: The exception's traceback, as text.
        signal: The number of the signal that killed it.
        exit_code: The code it exited with; None where it was killed, or is a thread.
        timed_out: Whether it was still running at the deadline.
        stacks: The Python stacks of all its threads, if it had to be ended.
        output: What it wrote to standard output and standard error.
    """

    rank: int
    value: Any = None
    error: BaseException | None = None
    traceback: str | None = None
    signal: int | None = None
    exit_code: int | None = None
    timed_out: bool = False
    stacks: str | None = None
    output: str = ""

    @property
    def ok(self) -> bool:
        """Whether the function returned and the rank ended well."""
        return self.error is None and self.signal is None and not self.timed_out and self.exit_code in (None, 0)
