"""A finding and a warning as text that a terminal shows and never obeys.

Their form as JSON is the guard's own: guard/verdict/finding_json.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from paceline.errors import group_ranks
from paceline.guard.judge.stragglers import Notice
from paceline.guard.verdict.finding import Finding, FirstDifference, GroupState, RankGroup
from paceline.guard.verdict.job_warning import JobWarning
from paceline.guard.verdict.rank_names import name_rank, name_ranks, naming
from paceline.guard.verdict.snapshot import End
from paceline.report.safe_text import terminal_safe

_MOST_HOSTS = 4  # of a group, that are named
_COLOURS = {"head": "\033[1;31m", "warn": "\033[1;33m", "key": "\033[1m", "dim": "\033[2m", "end": "\033[0m"}


def finding_as_text(finding: Finding, *, colours: bool = False) -> str:
    """Return a finding as text: one sentence, the ranks in groups, the first difference, the cause, what to change."""
    head, key, end = (_COLOURS[name] if colours else "" for name in ("head", "key", "end"))
    with naming(finding.world_ranks):
        lines = [f"{head}paceline: {terminal_safe(finding.summary)}{end}", *_group_lines(finding.groups)]
        if finding.first_difference is not None:
            lines.append(f"  {terminal_safe(_difference_text(finding.first_difference))}")
    lines.append(f"  {key}cause:{end} {finding.cause}: {finding.cause.sentence}")
    lines.append(f"  {key}change:{end} {terminal_safe(finding.advice)}")
    for other in finding.explanations[1:]:
        lines.append(f"  {key}or:{end} {other.cause}: {terminal_safe(other.summary)}")
    return "\n".join(lines)


def records_as_text(records: Path, *, colours: bool = False) -> str:
    """Return the line below a finding that says where its records are."""
    key, end = (_COLOURS[name] if colours else "" for name in ("key", "end"))
    return f"  {key}records:{end} {terminal_safe(str(records))} (paceline report makes a page of them)"


def problem_as_text(problem: str) -> str:
    """Return the line that says what could not be watched."""
    return f"paceline: not everything was watched: {terminal_safe(problem)}"


def warning_as_text(warning: JobWarning, *, colours: bool = False) -> str:
    """Return a warning as text: one sentence, and what to change."""
    warn, key, end = (_COLOURS[name] if colours else "" for name in ("warn", "key", "end"))
    lines = [f"{warn}paceline: warning:{end} {terminal_safe(warning.summary)} [{warning.cause}]"]
    lines.append(f"  {key}change:{end} {terminal_safe(warning.advice)}")
    return "\n".join(lines)


def _group_lines(groups: Sequence[RankGroup]) -> list[str]:
    """Lay ranks, call and site out in columns; nothing is cut off."""
    rows = [
        tuple(
            map(
                terminal_safe,
                (_ranks_text(group), group.call or group.state, group.site or "", _detail_text(group)),
            )
        )
        for group in groups
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return [
        "  " + "   ".join(cell.ljust(width) for cell, width in zip(row, [*widths, 0], strict=True)).rstrip()
        for row in rows
    ]


def _ranks_text(group: RankGroup) -> str:
    """Return ranks as people call them, with their hosts if there are several in the job."""
    if not group.hosts:
        return name_ranks(group.ranks)
    names = ", ".join(group.hosts) if len(group.hosts) <= _MOST_HOSTS else f"{len(group.hosts)} hosts"
    return f"{name_ranks(group.ranks)} ({names})"


def _detail_text(group: RankGroup) -> str:
    parts = []
    if group.sequence is not None:
        parts.append(f"call {group.sequence} on {group.communicator}")
    if group.detail:
        parts.append(group.detail)
    if group.call is not None:
        doing = "waiting" if group.state is GroupState.BLOCKED else group.state
        parts.append("returned" if group.has_returned else doing)
    return ", ".join(parts)


def _difference_text(difference: FirstDifference) -> str:
    sides = ", ".join(f"{name_ranks(group.ranks)} {group.call} at {group.site}" for group in difference.groups)
    return f"first difference at call {difference.sequence} on {difference.communicator}: {sides}"


def notice_as_text(notice: Notice) -> str:
    """Return who waits for whom."""
    lines = [f"paceline: {terminal_safe(notice.summary)}"]
    for late in notice.late:
        stack = " < ".join(late.stack) if late.stack else "its stack cannot be read"
        with naming(notice.world_ranks):
            lines.append(terminal_safe(f"  {name_rank(late.rank)} {late.text}: {stack}"))
    if notice.blind:
        lines.append(f"  whether a rank waits inside a compiled library is not known: {terminal_safe(notice.blind)}")
    return "\n".join(lines)


def failures_as_text(code: int, failures: Sequence[tuple[int, End]]) -> str:
    """Return the text for a job that failed with nothing out of line."""
    ends = {rank: f"{end.kind.value}{f' at {end.site}' if end.site else ''}: {end.detail}" for rank, end in failures}
    how = "; ".join(f"{name_ranks(ranks)} {text}" for text, ranks in group_ranks(ends))
    return f"paceline: the job ended with code {code}; no rank fell out of line" + (
        f" ({terminal_safe(how)})" if how else ""
    )
