"""Each program is explained as what really went wrong in it, and its twin that follows the advice runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.guard.verdict.cause_programs import PROGRAMS, CauseProgram
from tests.guard.verdict.scripted import run_script

every_program = pytest.mark.parametrize("case", PROGRAMS, ids=lambda case: case.program.__name__)


def marked_lines(name: str) -> list[str]:
    """Return the sites that are marked for a program."""
    file = Path(__file__).with_name("cause_programs.py")
    lines = file.read_text().splitlines()
    return [f"{file}:{number}" for number, line in enumerate(lines, 1) if f"# <- here {name}" in line]


@every_program
def test_the_cause_is_what_went_wrong(case: CauseProgram) -> None:
    finding = run_script(lambda side: case.program(side, True), case.size, split=case.split)
    assert finding is not None
    assert (finding.cause, finding.ranks) == (case.cause, case.ranks), finding.summary
    marked = marked_lines(case.program.__name__)
    assert marked
    assert any(site in finding.summary for site in marked), finding.summary


@every_program
def test_the_twin_runs(case: CauseProgram) -> None:
    assert run_script(lambda side: case.program(side, False), case.size, split=case.split) is None
