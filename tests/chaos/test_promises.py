"""The suite that injects faults reads what the guard says: it must see what was said, and no more."""

from __future__ import annotations

import pytest
from tests.chaos.promises import killed_together

from paceline.guard.verdict.snapshot import End, EndKind
from paceline.report.text.finding_text import failures_as_text

KILLED = End(kind=EndKind.KILLED, detail="by SIGKILL", signal=9)
GROWN = End(kind=EndKind.KILLED, detail="by SIGKILL; its memory had grown", signal=9)
RAISED = End(kind=EndKind.RAISED, detail="OSError: no ranks 7-9 killed", site="train.py:3")


@pytest.mark.parametrize(
    ("ends", "killed"),
    [
        ([KILLED, KILLED, KILLED], {0, 1, 2}),
        ([KILLED, GROWN, KILLED], {0, 1, 2}),
        ([KILLED, RAISED, KILLED], {0, 2}),
        ([], set()),
    ],
)
def test_ranks_that_the_guard_saw_killed_together_are_read_from_its_words(ends: list[End], killed: set[int]) -> None:
    assert killed_together(failures_as_text(9, list(enumerate(ends)))) == killed


def test_a_job_that_is_ended_by_a_finding_has_no_ranks_that_were_killed_together() -> None:
    assert killed_together("rank 1 fell out of line: it was killed (by SIGKILL)\n  ranks 0-1 killed") == set()
