"""The catalogue of breaks as text: lists, cases, and what a run of one showed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from paceline.errors import name_ranks
from paceline.lab.case import Case
from paceline.lab.observed_run import ObservedRun
from paceline.lab.verdicts import CaseVerdict, ending_of
from paceline.report.text.tables import table_text


def cases_as_text(cases: Iterable[Case]) -> str:
    """List cases by concept."""
    parts = []
    for concept, group in groupby(cases, key=lambda case: case.concept):
        rows = [[f"  {case.id}", case.carrier, case.num_ranks, case.title] for case in group]
        parts.append((concept, rows))
    lines = table_text(["", "carrier", "ranks", ""], [row for _, rows in parts for row in rows]).splitlines()
    text = [lines.pop(0)]
    for concept, rows in parts:
        text += ["", concept, *lines[: len(rows)]]
        del lines[: len(rows)]
    text += ["", "paceline lab show ID: symptom and code; run ID [--bare]: see it happen; solve ID: repair it"]
    return "\n".join(text)


def case_as_text(case: Case) -> str:
    """Show a case as a learner meets it: the symptom and the code, not the cause."""
    code = case.program("broken").read_text().rstrip()
    numbered = [f"{number:4}  {line}".rstrip() for number, line in enumerate(code.splitlines(), start=1)]
    head = f"{case.id} ({case.concept}, {case.carrier}, {case.num_ranks} ranks)"  # a title would tell the cause
    last = f"paceline lab run {case.id} [--bare | --fixed]   paceline lab hint {case.id}   paceline lab solve {case.id}"
    return "\n".join([head, "", case.symptom, "", *numbered, "", last])


def hint_as_text(case: Case, number: int) -> str:
    """Return one hint, and how to get the next one."""
    more = f"paceline lab hint {case.id} {number + 1}" if number < 3 else f"paceline lab run {case.id}, which says more"
    return f"hint {number} of 3: {case.hints[number - 1]}\nnext: {more}"


def fix_as_text(case: Case) -> str:
    """Return the cause, the fix and what prevents it."""
    return "\n".join([f"cause: {case.cause}", "", case.fix(), "", f"in Paceline: {case.prevention}"])


def bare_as_text(case: Case, library: str, ended: ObservedRun) -> str:
    """Return what a bare run did: the last output of each rank, and for how long nothing moved."""
    ending = ending_of(case, ended)
    lines = [f"{case.id}, bare, {case.num_ranks} ranks, {library}: {ending}"]
    rows = []
    for rank, seen in enumerate(ended.ranks):
        state = f"at {seen.site or 'its end'}" if seen.lives else "has ended"
        rows.append([f"  rank {rank}", state, seen.last_error or seen.last_line or "(no output)"])
    lines += table_text(["", "", "last output"], rows).splitlines()
    if ended.exit_code is None:
        lines.append(f"no rank made progress for {ended.quiet_seconds:.1f} s; all were ended")
    else:
        lines.append(f"ended by itself after {ended.seconds:.1f} s with exit code {ended.exit_code}")
    if ending == "wrong result":
        lines += _wrong_lines(case, ended)
    return "\n".join(lines)


def _wrong_lines(case: Case, ended: ObservedRun) -> list[str]:
    wrong = [rank for rank, line in enumerate(ended.results) if line != case.result[rank]]
    lines = [f"wrong on {name_ranks(wrong)}; it should have been:"]
    return lines + [f"  {case.result[rank]}" for rank in wrong]


def guarded_as_text(case: Case, ended: ObservedRun) -> str:
    """Return what ranks printed under the guard, then what the guard printed."""
    lines = [f"{case.id}, {case.num_ranks} ranks, under the guard"]
    for rank, seen in enumerate(ended.ranks):
        lines += [f"  rank {rank} | {line}" for line in [*seen.out.splitlines(), *seen.err.splitlines()[-1:]]]
    from_guard = [line for line in ended.output.splitlines() if not line.startswith("  records:")]
    if ended.outcome is not None and ended.outcome["finding"] is None and ended.exit_code == 0:
        number = len(ended.outcome["warnings"])
        warned = f", {number} {'warning' if number == 1 else 'warnings'}" if number else ""
        from_guard.append(f"no finding{warned}; exit code 0 after {ended.seconds:.1f} s; {ending_of(case, ended)}")
    return "\n".join([*lines, *from_guard])


def verdicts_as_text(case: Case, verdicts: Sequence[CaseVerdict]) -> str:
    """Return whether a case holds, one line for each of its runs."""
    state = "ok" if all(verdict.holds for verdict in verdicts) else "BROKEN"
    lines = [f"{state:6}  {case.id} ({case.carrier}, {case.num_ranks} ranks)"]
    for verdict in verdicts:
        seconds = f"{verdict.seconds:4.1f} s" if verdict.seconds else " " * 6
        lines.append(f"  {'' if verdict.holds else 'NOT '}{verdict.part:8} {seconds}  {verdict.text}")
    return "\n".join(lines)
