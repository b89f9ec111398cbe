"""A finding and a warning as text that a terminal shows and never obeys.

Their form as JSON is the guard's own: guard/verdict/finding_json.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from paceline.errors import group_ranks
from paceline.guard.judge.stragglers import Notice
from paceline.guard.verdict.finding import Finding, FirstDifference, GroupState, RankGroup
from paceline.guard.verdict.job_warning import JobWarning
from paceline.guard.verdict.rank_names import name_rank, name_ranks, name_with_hosts, naming
from paceline.guard.verdict.snapshot import End
from paceline.report.safe_text import terminal_safe
from paceline.report.text.text_layout import PLAIN, TextLayout

_WARNING = "paceline: warning:"
_BRIEF = 140  # characters of what ended a rank that is not to blame


def finding_as_text(finding: Finding, layout: TextLayout = PLAIN) -> str:
    """Return a finding as text: one sentence, the ranks in groups, the first difference, the cause, what to change."""
    lines = layout.headline(f"paceline: {terminal_safe(finding.summary)}")
    with naming(finding.world_ranks):
        lines += [part for line in _group_lines(finding.groups) for part in layout.wrap(line, indent=2)]
        if finding.first_difference is not None:
            lines += layout.wrap(terminal_safe(_difference_text(finding.first_difference)), indent=2)
    lines += layout.labelled("cause", f"{finding.cause}: {finding.cause.sentence}")
    lines += layout.labelled("change", terminal_safe(finding.advice))
    for other in finding.explanations[1:]:
        lines += layout.labelled("or", f"{other.cause}: {terminal_safe(other.summary)}")
    return "\n".join(lines)


def afterwards_as_text(details: Mapping[int, str], finding: Finding, layout: TextLayout = PLAIN) -> str:
    """Return the lines for ranks that ended because of others: how each ended, by rank, and where its output is."""
    with naming(finding.world_ranks):
        ways = "; ".join(f"{name_ranks(ranks)} ({_brief(text)})" for text, ranks in group_ranks(details))
    their = "its" if len(details) == 1 else "their"
    return "\n".join(layout.labelled("ended afterwards", f"{ways}; {their} output is in the records"))


def _brief(text: str) -> str:
    return terminal_safe(text if len(text) <= _BRIEF else f"{text[:_BRIEF]}...")


def records_as_text(records: Path, layout: TextLayout = PLAIN) -> str:
    """Return the line below a finding that says where its records are."""
    return "\n".join(
        layout.labelled("records", f"{terminal_safe(str(records))} (paceline report makes a page of them)")
    )


def problem_as_text(problem: str) -> str:
    """Return the line that says what could not be watched."""
    return f"paceline: not everything was watched: {terminal_safe(problem)}"


def warning_as_text(warning: JobWarning, layout: TextLayout = PLAIN) -> str:
    """Return a warning as text: one sentence, and what to change."""
    first, *others = layout.wrap(f"{_WARNING} {terminal_safe(warning.summary)} [{warning.cause}]")
    lines = [first.replace(_WARNING, layout.colour("warn", _WARNING), 1), *others]
    return "\n".join([*lines, *layout.labelled("change", terminal_safe(warning.advice))])


def _group_lines(groups: Sequence[RankGroup]) -> list[str]:
    """Lay ranks, call and site out in columns; nothing is cut off."""
    rows = [
        tuple(
            map(
                terminal_safe,
                (
                    name_with_hosts(group.ranks, group.hosts, group.num_hosts),
                    group.call or group.state,
                    group.site or "",
                    _detail_text(group),
                ),
            )
        )
        for group in groups
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return [
        "   ".join(cell.ljust(width) for cell, width in zip(row, [*widths, 0], strict=True)).rstrip() for row in rows
    ]


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


def notice_as_text(notice: Notice, layout: TextLayout = PLAIN) -> str:
    """Return who waits for whom."""
    lines = layout.wrap(f"paceline: {terminal_safe(notice.summary)}")
    for late in notice.late:
        stack = " < ".join(late.stack) if late.stack else "its stack cannot be read"
        with naming(notice.world_ranks):
            lines += layout.wrap(terminal_safe(f"{name_rank(late.rank)} {late.text}: {stack}"), indent=2)
    if notice.blind:
        blind = f"whether a rank waits inside a compiled library is not known: {terminal_safe(notice.blind)}"
        lines += layout.wrap(blind, indent=2)
    return "\n".join(lines)


def failures_as_text(code: int, failures: Sequence[tuple[int, End]], layout: TextLayout = PLAIN) -> str:
    """Return the text for a job that failed with nothing out of line."""
    ends = {rank: f"{end.kind.value}{f' at {end.site}' if end.site else ''}: {end.detail}" for rank, end in failures}
    how = "; ".join(f"{name_ranks(ranks)} {text}" for text, ranks in group_ranks(ends))
    ended = f"paceline: the job ended with code {code}; no rank fell out of line"
    return "\n".join(layout.wrap(ended + (f" ({terminal_safe(how)})" if how else "")))
