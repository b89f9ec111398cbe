"""Runs cases and holds each to what it states: its symptom, what the guard says, and a repair that passes.

What was seen is judged by `verdicts`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from paceline.errors import InputError
from paceline.lab.case import Case, find_case
from paceline.lab.observed_run import ObservedRun
from paceline.lab.run_case import library_of, run_bare, run_guarded
from paceline.lab.verdicts import CaseVerdict, describe_ends, judge_bare, judge_guard, judge_right

NOTICE_SECONDS = 0.5  # for a case whose point is that a rank is late, not stuck
_SEEN = "seen: "
_MARK = "# paceline lab: "


def run_under_guard(case: Case, program: Path) -> ObservedRun:
    """Run a program of a case under the guard, so that it shows late ranks if the case is about them."""
    return run_guarded(case, program, notice=NOTICE_SECONDS if case.expected.late else 10.0)


def run_seen_test(case: Case, name: str) -> tuple[str, ...]:
    """Run the case's own test on a program (broken or fixed); return what it shows."""
    ended = run_bare(case, case.program("seen"), arguments=[name])
    if ended.exit_code != 0:
        return (f"{_SEEN}the test itself failed: {describe_ends(ended)}",)
    lines = [line for rank in ended.ranks for line in rank.out.splitlines()]
    return tuple(line.removeprefix(_SEEN) for line in lines if line.startswith(_SEEN))


def _check_bare(case: Case) -> CaseVerdict:
    return judge_bare(case, library_of(case), run_bare(case, case.program("broken")))


def _check_guard(case: Case) -> CaseVerdict:
    return judge_guard(case, library_of(case), run_under_guard(case, case.program("broken")))


def _check_seen(case: Case) -> CaseVerdict:
    """A test that sees the break in the broken program must not see it in the repaired one."""
    broken, fixed = run_seen_test(case, "broken"), run_seen_test(case, "fixed")
    holds = bool(broken) and not fixed and not any(line.startswith(_SEEN) for line in broken)
    text = "; ".join(broken) if holds else f"in the broken program {broken}, in the repaired one {fixed}"
    return CaseVerdict(part="seen", holds=holds, text=text, seconds=0.0)


def _check_right(case: Case, name: str) -> CaseVerdict:
    return judge_right(case, name, run_guarded(case, case.program(name)))


def check_case(case: Case) -> list[CaseVerdict]:
    """Run all that a case has."""
    verdicts = [_check_bare(case), _check_guard(case), _check_right(case, "fixed")]
    if case.has("paceline"):
        verdicts.append(_check_right(case, "paceline"))
    if case.has("seen"):
        verdicts.append(_check_seen(case))
    return verdicts


def check_repair(case: Case, program: Path) -> CaseVerdict:
    """Say whether a learner's repair holds."""
    return judge_right(case, "repair", run_guarded(case, program))


def check_all(
    cases: Iterable[Case], *, at_a_time: int = 2, done: Callable[[Case, list[CaseVerdict]], None]
) -> dict[str, list[CaseVerdict]]:
    """Check cases, a few at a time; tell of each when it is done."""
    by_case: dict[str, list[CaseVerdict]] = {}
    with ThreadPoolExecutor(at_a_time) as pool:
        try:
            for case, verdicts in pool.map(lambda case: (case, check_case(case)), cases):
                by_case[case.id] = verdicts
                done(case, verdicts)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # Ctrl-C: begin no further case
            raise
    return by_case


def copy_to_solve(case: Case, folder: Path) -> Path:
    """Copy the broken program for a learner, with a line that says of which case it is."""
    path = folder / f"{case.id}.py"
    if path.exists():
        raise InputError(f"{path.name} is here already; move it away, or go on with it")
    path.write_text(f"{_MARK}{case.id}\n{case.program('broken').read_text()}")
    return path


def case_of(program: Path) -> Case:
    """Return the case that a learner's program belongs to."""
    mark = re.search(rf"^{_MARK}(\S+)$", program.read_text(errors="replace"), flags=re.MULTILINE)
    if mark is None:
        raise InputError(f"{program} does not say its case; its first line should be: {_MARK}ID")
    return find_case(mark[1])
