"""Holds a case to what it states: bare it shows its symptom, the guard gives its finding, the repair passes.

The functions named `judge_...` decide from what was seen; the others run jobs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paceline.errors import InputError, name_ranks
from paceline.lab.case import Case, find_case
from paceline.lab.run_case import Ended, library_of, run_bare, run_guarded

NOTICE_SECONDS = 0.5  # for a case whose point is that a rank is late, not stuck
_SEEN = "seen: "
_MARK = "# paceline lab: "


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether one run of a case was as it should be."""

    part: str  # bare, guard, fixed, paceline, seen or repair
    holds: bool
    said: str
    seconds: float


def ending_of(case: Case, ended: Ended) -> str:
    """Name what a bare run did: hang, abort, wrong result or right result."""
    if ended.exit_code is None:
        return "hang"
    if ended.exit_code != 0:
        return "abort"
    return "right result" if ended.results == case.result else "wrong result"


def judge_bare(case: Case, library: str, ended: Ended) -> Verdict:
    """Compare a bare run with the symptom that the case states."""
    ending = ending_of(case, ended)
    stated = case.bare[library]
    said = ending if ending in stated else f"{ending}, but the case states: {' or '.join(stated)}; {_ends(case, ended)}"
    return Verdict(part="bare", holds=ending in stated, said=said, seconds=ended.seconds)


def judge_finding(case: Case, ended: Ended) -> Verdict:
    """Compare what the guard said with what the case states."""
    expected, outcome = case.expected, ended.outcome
    finding = outcome["finding"] if outcome is not None else None
    if expected.late:
        missing = [rank for rank in expected.late if f"rank {rank} is " not in ended.said]
        wrong = [f"it does not say that rank {rank} is late" for rank in missing]
        wrong += ["a rank that is late was called stuck"] if finding is not None else []
        said = f"no finding; shows that {name_ranks(expected.late)} is late"
    elif expected.kind is None:
        wrong = [f"a finding where no call is wrong: {finding['summary']}"] if finding is not None else []
        said = "no finding: no call is wrong"
    else:
        wrong = list(differences(case, finding)) if finding is not None else ["no finding"]
        said = finding_in_words(finding) if finding is not None else ""
    if outcome is None:
        wrong.append("the guard gave no outcome")
    return Verdict(
        part="guard",
        holds=not wrong,
        said=said if not wrong else f"{'; '.join(wrong)}; it said: {ended.said.strip() or 'nothing'}",
        seconds=ended.seconds,
    )


def finding_in_words(finding: dict[str, Any]) -> str:
    """Say a finding in one line.

    >>> finding_in_words({"kind": "mismatch", "field": "root", "ranks": [2], "cause": "root"})
    'mismatch (root), rank 2, cause root'
    """
    field = f" ({finding['field']})" if finding["field"] else ""
    return f"{finding['kind']}{field}, {name_ranks(finding['ranks'])}, cause {finding['cause']}"


def differences(case: Case, finding: dict[str, Any]) -> Iterator[str]:
    """Say in what a finding is not the one that the case states."""
    expected = case.expected
    for name, stated in (("kind", expected.kind), ("field", expected.field), ("cause", expected.cause)):
        if finding[name] != stated:
            yield f"{name} {finding[name]}, not {stated}"
    if tuple(finding["ranks"]) not in expected.ranks:
        yield f"{name_ranks(finding['ranks'])}, not {' or '.join(map(name_ranks, expected.ranks))}"
    groups = finding["groups"] + (finding["divergence"] or {"groups": []})["groups"]
    named = {Path(group["site"]).name for group in groups if group["site"]}
    if not named & set(expected.sites):
        yield f"it names {', '.join(sorted(named)) or 'no line'}, not {' or '.join(expected.sites)}"


def judge_right(case: Case, part: str, ended: Ended) -> Verdict:
    """Say whether a job that should be right ran to its end, without a finding and with the right results."""
    outcome = ended.outcome
    if outcome is not None and outcome["finding"] is not None:
        said = f"a finding: {outcome['finding']['summary']}"
    elif ended.exit_code != 0:
        said = f"{ending_of(case, ended)}: {_ends(case, ended)}"
    elif ended.results != case.result:
        rank = next(rank for rank, line in enumerate(ended.results) if line != case.result[rank])
        said = f"rank {rank} ends with {ended.results[rank]!r}, the reference with {case.result[rank]!r}"
    else:
        return Verdict(part=part, holds=True, said="right result on every rank, no finding", seconds=ended.seconds)
    return Verdict(part=part, holds=False, said=said, seconds=ended.seconds)


def _ends(case: Case, ended: Ended) -> str:
    """Say where ranks ended, for whoever looks into a check that fails."""
    said = f"exit code {ended.exit_code}" if ended.exit_code is not None else f"quiet for {ended.quiet_seconds:.0f} s"
    for rank, seen in enumerate(ended.ranks):
        said += f"; rank {rank} {seen.site or ''} {seen.last_line!r} {seen.last_error!r}"
    return f"{said}; launcher: {ended.said.strip()[-300:]!r}"


def guarded(case: Case, program: Path) -> Ended:
    """Run a program of a case under the guard, so that it shows late ranks if the case is about them."""
    return run_guarded(case, program, notice=NOTICE_SECONDS if case.expected.late else 10.0)


def what_is_seen(case: Case, name: str) -> tuple[str, ...]:
    """Run the case's own test on a program (broken or fixed); return what it shows."""
    ended = run_bare(case, case.program("seen"), arguments=[name])
    if ended.exit_code != 0:
        return (f"{_SEEN}the test itself failed: {_ends(case, ended)}",)
    lines = [line for rank in ended.ranks for line in rank.out.splitlines()]
    return tuple(line.removeprefix(_SEEN) for line in lines if line.startswith(_SEEN))


def _check_bare(case: Case) -> Verdict:
    return judge_bare(case, library_of(case), run_bare(case, case.program("broken")))


def _check_guard(case: Case) -> Verdict:
    return judge_finding(case, guarded(case, case.program("broken")))


def _check_seen(case: Case) -> Verdict:
    """A test that sees the break in the broken program must not see it in the repaired one."""
    broken, fixed = what_is_seen(case, "broken"), what_is_seen(case, "fixed")
    holds = bool(broken) and not fixed and not any(line.startswith(_SEEN) for line in broken)
    said = "; ".join(broken) if holds else f"in the broken program {broken}, in the repaired one {fixed}"
    return Verdict(part="seen", holds=holds, said=said, seconds=0.0)


def _check_right(case: Case, name: str) -> Verdict:
    return judge_right(case, name, run_guarded(case, case.program(name)))


def check_case(case: Case) -> list[Verdict]:
    """Run all that a case has."""
    verdicts = [_check_bare(case), _check_guard(case), _check_right(case, "fixed")]
    if case.has("paceline"):
        verdicts.append(_check_right(case, "paceline"))
    if case.has("seen"):
        verdicts.append(_check_seen(case))
    return verdicts


def check_repair(case: Case, program: Path) -> Verdict:
    """Say whether a learner's repair holds."""
    return judge_right(case, "repair", run_guarded(case, program))


def check_all(
    cases: Iterable[Case], *, at_a_time: int = 2, done: Callable[[Case, list[Verdict]], None]
) -> dict[str, list[Verdict]]:
    """Check cases, a few at a time; tell of each when it is done."""
    found: dict[str, list[Verdict]] = {}
    with ThreadPoolExecutor(at_a_time) as pool:
        try:
            for case, verdicts in pool.map(lambda case: (case, check_case(case)), cases):
                found[case.id] = verdicts
                done(case, verdicts)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # Ctrl-C: begin no further case
            raise
    return found


def copy_to_solve(case: Case, folder: Path) -> Path:
    """Copy the broken program for a learner, with a line that says of which case it is."""
    path = folder / f"{case.id}.py"
    if path.exists():
        raise InputError(f"{path.name} is here already; move it away, or go on with it")
    path.write_text(f"{_MARK}{case.id}\n{case.program('broken').read_text()}")
    return path


def case_of(program: Path) -> Case:
    """Return the case that a learner's program belongs to."""
    found = re.search(rf"^{_MARK}(\S+)$", program.read_text(errors="replace"), flags=re.MULTILINE)
    if found is None:
        raise InputError(f"{program} does not say its case; its first line should be: {_MARK}ID")
    return find_case(found[1])
