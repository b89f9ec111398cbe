"""What a judge asks of the rings of a job, wherever they are."""

from __future__ import annotations

from typing import Protocol

from paceline.guard.observe.watched_job import WatchedJob
from paceline.guard.verdict.rules.passed import Passed
from paceline.guard.verdict.snapshot import Snapshot


class Rings(Protocol):
    """Where the records of ranks come from."""

    def jobs(self) -> list[WatchedJob]:
        """Return the jobs that are known now."""

    def starting(self, *, has_ended: bool = False) -> list[Snapshot]:
        """Return the jobs that no rank has joined yet, and in which one has ended that others need."""

    def wait(self, seconds: float) -> None:
        """Wait for the given time, or until a rank has ended."""

    def passed_differences(self) -> list[tuple[WatchedJob, Passed]]:
        """Return what does not fit between ranks of several hosts, which may have gone on."""

    def problems(self) -> list[str]:
        """Return why processes could not be watched, in their own words."""

    def close(self) -> None:
        """Let go of everything."""
