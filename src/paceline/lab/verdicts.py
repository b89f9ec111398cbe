"""Decides whether a run of a case was as the case states. Values in, values out; `check_cases` runs the jobs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paceline.errors import name_ranks
from paceline.lab.case import Case
from paceline.lab.observed_run import ObservedRun


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseVerdict:
    """Whether one run of a case was as it should be."""

    part: str  # bare, guard, fixed, paceline, seen or repair
    holds: bool
    text: str
    seconds: float


def ending_of(case: Case, run: ObservedRun) -> str:
    """Name what a bare run did: hang, abort, wrong result or right result."""
    if run.exit_code is None:
        return "hang"
    if run.exit_code != 0:
        return "abort"
    return "right result" if run.results == case.result else "wrong result"


def judge_bare(case: Case, library: str, run: ObservedRun) -> CaseVerdict:
    """Compare a bare run with the symptom that the case states."""
    ending = ending_of(case, run)
    stated = case.bare[library]
    text = ending if ending in stated else f"{ending}, but the case states: {' or '.join(stated)}; {describe_ends(run)}"
    return CaseVerdict(part="bare", holds=ending in stated, text=text, seconds=run.seconds)


def judge_finding(case: Case, run: ObservedRun) -> CaseVerdict:
    """Compare what the guard said with what the case states."""
    expected, outcome = case.expected, run.outcome
    finding = outcome["finding"] if outcome is not None else None
    if expected.late:
        missing = [rank for rank in expected.late if f"rank {rank} is " not in run.output]
        wrong = [f"it does not say that rank {rank} is late" for rank in missing]
        wrong += ["a rank that is late was called stuck"] if finding is not None else []
        text = f"no finding; shows that {name_ranks(expected.late)} is late"
    elif expected.kind is None:
        wrong = [f"a finding where no call is wrong: {finding['summary']}"] if finding is not None else []
        text = "no finding: no call is wrong"
    else:
        wrong = list(find_differences(case, finding)) if finding is not None else ["no finding"]
        text = finding_in_words(finding) if finding is not None else ""
    if outcome is None:
        wrong.append("the guard gave no outcome")
    return CaseVerdict(
        part="guard",
        holds=not wrong,
        text=text if not wrong else f"{'; '.join(wrong)}; it said: {run.output.strip() or 'nothing'}",
        seconds=run.seconds,
    )


def finding_in_words(finding: dict[str, Any]) -> str:
    """Say a finding in one line.

    >>> finding_in_words({"kind": "mismatch", "field": "root", "ranks": [2], "cause": "root"})
    'mismatch (root), rank 2, cause root'
    """
    field = f" ({finding['field']})" if finding["field"] else ""
    return f"{finding['kind']}{field}, {name_ranks(finding['ranks'])}, cause {finding['cause']}"


def find_differences(case: Case, finding: dict[str, Any]) -> Iterator[str]:
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


def judge_right(case: Case, part: str, run: ObservedRun) -> CaseVerdict:
    """Say whether a job that should be right ran to its end, without a finding and with the right results."""
    outcome = run.outcome
    if outcome is not None and outcome["finding"] is not None:
        text = f"a finding: {outcome['finding']['summary']}"
    elif run.exit_code != 0:
        text = f"{ending_of(case, run)}: {describe_ends(run)}"
    elif run.results != case.result:
        rank = next(rank for rank, line in enumerate(run.results) if line != case.result[rank])
        text = f"rank {rank} ends with {run.results[rank]!r}, the reference with {case.result[rank]!r}"
    else:
        return CaseVerdict(part=part, holds=True, text="right result on every rank, no finding", seconds=run.seconds)
    return CaseVerdict(part=part, holds=False, text=text, seconds=run.seconds)


def describe_ends(run: ObservedRun) -> str:
    """Say where ranks ended, for whoever looks into a check that fails."""
    text = f"exit code {run.exit_code}" if run.exit_code is not None else f"quiet for {run.quiet_seconds:.0f} s"
    for rank, seen in enumerate(run.ranks):
        text += f"; rank {rank} {seen.site or ''} {seen.last_line!r} {seen.last_error!r}"
    return f"{text}; launcher: {run.output.strip()[-300:]!r}"
