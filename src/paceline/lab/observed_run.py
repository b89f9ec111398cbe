"""What was seen of one run of a case, as values. Nothing is run here; tests build these values by hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedRank:
    """What was seen of one rank.

    Attributes:
        out: What it wrote to standard output.
        err: What it wrote to standard error.
        lives: Whether it still ran when the job was ended or had ended.
        site: The line of the script at which it was last seen.
    """

    out: str
    err: str
    lives: bool
    site: str | None

    @property
    def last_line(self) -> str:
        """The last line of standard output: the rank's result, if it got that far."""
        lines = self.out.strip().splitlines()
        return lines[-1] if lines else ""

    @property
    def last_error(self) -> str:
        """The last line of standard error, without the frames that compiled code may add to it."""
        lines = [line for line in self.err.strip().splitlines() if line and not line.startswith("frame #")]
        return lines[-1] if lines else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedRun:
    """How a run of a case ended.

    Attributes:
        exit_code: The launcher's; None where the job hung and was ended by us.
        seconds: How long it ran, from the start of the launcher.
        start_seconds: How much of that it took until every rank had imported torch or started MPI.
        quiet_seconds: For how long it had made no progress.
        ranks: What was seen of each rank.
        output: What the launcher, or the guard, wrote.
        outcome: What the guard found, as `paceline run --json` gives it.
    """

    exit_code: int | None
    seconds: float
    start_seconds: float
    quiet_seconds: float
    ranks: tuple[ObservedRank, ...]
    output: str
    outcome: dict[str, Any] | None = None

    @property
    def results(self) -> tuple[str, ...]:
        """The result of each rank."""
        return tuple(rank.last_line for rank in self.ranks)
