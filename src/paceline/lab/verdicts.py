"""Decides whether a run of a case was as the case states. Values in, values out; `check_cases` runs the jobs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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


def judge_guard(case: Case, library: str, run: ObservedRun) -> CaseVerdict:
    """Compare what the guard said with what the case states."""
    outcome = run.outcome
    if outcome is None:
        wrong, text = ["the guard gave no outcome"], ""
    else:
        finding, warnings = outcome["finding"], outcome["warnings"]
        wrong = [*_wrong_finding(case, library, finding), *find_other_warnings(case, warnings)]
        wrong += _wrong_notices(case, run)
        if finding is None:
            wrong += _wrong_end(case, library, run)
        text = "; ".join([_finding_text(case, finding), *map(warning_in_words, warnings)])
    return CaseVerdict(
        part="guard",
        holds=not wrong,
        text=text if not wrong else f"{'; '.join(wrong)}; it said: {run.output.strip() or 'nothing'}",
        seconds=run.seconds,
    )


def _finding_text(case: Case, finding: dict[str, Any] | None) -> str:
    if finding is not None:
        return finding_in_words(finding)
    if case.expected.late:
        return f"no finding; shows that {name_ranks(case.expected.late)} is late"
    return "no finding: no call is wrong" if case.is_silent else "no finding"


def _wrong_finding(case: Case, library: str, finding: dict[str, Any] | None) -> Iterator[str]:
    if case.expected.has_finding(library):
        yield from find_differences(case, finding) if finding is not None else ["no finding"]
    elif finding is not None:
        yield f"a finding that the case does not state: {finding['summary']}"


def _wrong_notices(case: Case, run: ObservedRun) -> Iterator[str]:
    for rank in case.expected.late:
        if f"rank {rank} is " not in run.output:
            yield f"it does not say that rank {rank} is late"


def _wrong_end(case: Case, library: str, run: ObservedRun) -> Iterator[str]:
    """Without a finding the guard leaves a job alone: it ends as it does bare."""
    ending = ending_of(case, run)
    if ending not in case.bare[library]:
        yield f"{ending}, but bare the case states: {' or '.join(case.bare[library])}; {describe_ends(run)}"


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


def warning_in_words(warning: dict[str, Any]) -> str:
    """Say a warning in one line.

    >>> warning_in_words({"cause": "buffer-in-use", "ranks": [0]})
    'warning buffer-in-use, rank 0'
    """
    return f"warning {warning['cause']}, {name_ranks(warning['ranks'])}"


def find_other_warnings(case: Case, warnings: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Say in what the warnings of a run are not the one that the case states, or none if it states none."""
    expected = case.expected.warning
    if expected is None:
        yield from (f"a warning that the case does not state: {warning['summary']}" for warning in warnings)
        return
    if len(warnings) != 1:
        yield f"{len(warnings)} warnings, not one"
    for warning in warnings:
        if warning["cause"] != expected.cause:
            yield f"warning {warning['cause']}, not {expected.cause}"
        if tuple(warning["ranks"]) not in expected.ranks:
            yield f"a warning for {name_ranks(warning['ranks'])}, not {' or '.join(map(name_ranks, expected.ranks))}"
        named = {Path(site).name for site in warning["sites"]}
        if not named & set(expected.sites):
            lines = ", ".join(sorted(named)) or "no line"
            yield f"the warning names {lines}, not {' or '.join(expected.sites)}"


def judge_right(case: Case, part: str, run: ObservedRun) -> CaseVerdict:
    """Say whether a job that should be right ended with the right results, and the guard had nothing to say."""
    outcome = run.outcome
    if outcome is None:
        text = f"the guard gave no outcome: {describe_ends(run)}"
    elif outcome["finding"] is not None:
        text = f"a finding: {outcome['finding']['summary']}"
    elif outcome["warnings"]:
        text = f"a warning: {outcome['warnings'][0]['summary']}"
    elif run.exit_code != 0:
        text = f"{ending_of(case, run)}: {describe_ends(run)}"
    elif run.results != case.result:
        rank = next(rank for rank, line in enumerate(run.results) if line != case.result[rank])
        text = f"rank {rank} ends with {run.results[rank]!r}, the reference with {case.result[rank]!r}"
    else:
        text = "right result on every rank, no finding, no warning"
        return CaseVerdict(part=part, holds=True, text=text, seconds=run.seconds)
    return CaseVerdict(part=part, holds=False, text=text, seconds=run.seconds)


def describe_ends(run: ObservedRun) -> str:
    """Say where ranks ended, for whoever looks into a check that fails."""
    text = f"exit code {run.exit_code}" if run.exit_code is not None else f"quiet for {run.quiet_seconds:.0f} s"
    for rank, seen in enumerate(run.ranks):
        text += f"; rank {rank} {seen.site or ''} {seen.last_line!r} {seen.last_error!r}"
    return f"{text}; launcher: {run.output.strip()[-300:]!r}"
