"""From the reports of all ranks and the guard's finding to what became of the test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from paceline.errors import name_ranks

_UNEXPECTED_PASS = "[XPASS(strict)]"  # as pytest words it; this session says so itself if the test passes


@dataclass(frozen=True, slots=True, kw_only=True)
class RankReports:
    """What one rank reports of the test.

    Attributes:
        rank: Which rank.
        reports: Of setup, call and end, as far as it came.
    """

    rank: int
    reports: tuple[pytest.TestReport | pytest.CollectReport, ...]

    def failure(self) -> str:
        """Return why the test has failed on this rank; empty if it has not."""
        texts = [report.longreprtext for report in self.reports if report.failed]
        return "\n".join(text for text in texts if not text.startswith(_UNEXPECTED_PASS))

    def skip_reason(self) -> str | None:
        """Return why this rank has skipped the test; None if it has not."""
        for report in self.reports:
            if report.skipped and not hasattr(report, "wasxfail"):
                return report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
        return None

    def expected_failure(self) -> str | None:
        """Return why the test was expected to fail, if it did on this rank; otherwise None."""
        return next(
            (report.wasxfail for report in self.reports if report.skipped and hasattr(report, "wasxfail")), None
        )

    def has_ended(self) -> bool:
        """Return whether the rank came to the end of the test."""
        return any(report.when == "teardown" for report in self.reports) or bool(self.failure())


def verdict_of(reports: Sequence[RankReports], *, finding: str, rest: str, code: int) -> None:
    """Raise what pytest expects if the test failed, was skipped, or failed as expected; return if it passed.

    Args:
        reports: Of all ranks, in their order.
        finding: What the guard has found, as text; empty if nothing.
        rest: What is known if neither ranks nor guard say why the job failed.
        code: The exit code of the job.
    """
    failures = _failures(reports)
    if finding or failures:
        pytest.fail("\n\n".join(filter(None, [finding, *failures])), pytrace=False)
    expected = [reason for of_rank in reports if (reason := of_rank.expected_failure()) is not None]
    if expected:
        pytest.xfail(expected[0])
    missing = [of_rank.rank for of_rank in reports if not of_rank.has_ended()]
    unexpected_pass = any(report.failed for of_rank in reports for report in of_rank.reports)
    if missing or (code != 0 and not unexpected_pass):
        which = f"{name_ranks(missing)} did not come to the end of the test; " if missing else ""
        pytest.fail(f"{which}{rest}", pytrace=False)
    skipped = [of_rank.skip_reason() for of_rank in reports]
    if skipped[0] is not None and all(reason is not None for reason in skipped):
        pytest.skip(skipped[0].removeprefix("Skipped: "))


def _failures(reports: Sequence[RankReports]) -> list[str]:
    """Return the failures of ranks; ranks that failed alike share one."""
    ranks_by_text: dict[str, list[int]] = {}
    for of_rank in reports:
        if text := of_rank.failure():
            ranks_by_text.setdefault(text, []).append(of_rank.rank)
    return [f"{name_ranks(ranks)}:\n{text}" for text, ranks in ranks_by_text.items()]
