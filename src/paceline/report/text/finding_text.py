"""A finding as text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from paceline.errors import name_ranks
from paceline.guard.judge.stragglers import Notice
from paceline.guard.verdict.finding import Divergence, Finding, RankGroup
from paceline.guard.verdict.snapshot import End

CAUSES = {
    "uneven-steps": "ranks make different numbers of steps",
    "rank-conditional-call": "only some ranks make a call that all must make",
    "call-order": "ranks make their calls in different orders",
    "different-collectives": "ranks stand in different collectives",
    "shape": "ranks bring different sizes",
    "dtype": "ranks bring different element types",
    "root": "ranks name different roots",
    "reduction": "ranks use different reductions",
    "group": "ranks make different groups",
    "exception": "a rank raised an exception that nobody caught",
    "killed": "a rank was killed",
    "early-exit": "a rank ended before the others were done with it",
    "out-of-memory": "a rank ran out of memory",
    "disk-full": "a rank ran out of disk space",
    "receive-receive": "ranks receive from each other before either has sent",
    "send-send": "ranks send to each other before either receives",
    "message-order": "ranks send and receive in orders that do not fit",
    "send-without-receive": "a message that nobody receives",
    "receive-without-send": "a receive, or a wait, that nothing comes for",
    "no-such-rank": "a number that names nobody",
    "truncated": "a message larger than its buffer",
    "timeout": "a rank is later than the limit that was given",
}
_COLOURS = {"head": "\033[1;31m", "key": "\033[1m", "dim": "\033[2m", "end": "\033[0m"}


def finding_as_text(finding: Finding, records: Path | None = None, *, colours: bool = False) -> str:
    """Say a finding: one sentence, the ranks in groups, where they parted, the cause and what to change."""
    head, key, end = (_COLOURS[name] if colours else "" for name in ("head", "key", "end"))
    lines = [f"{head}paceline: {finding.summary}{end}", *_group_lines(finding.groups)]
    if finding.divergence is not None:
        lines.append(f"  {_divergence_text(finding.divergence)}")
    said = CAUSES.get(finding.cause)
    lines.append(f"  {key}cause:{end} {finding.cause}" + (f": {said}" if said else ""))
    lines.append(f"  {key}change:{end} {finding.advice}")
    if records is not None:
        lines.append(f"  {key}records:{end} {records} (paceline report makes a page of them)")
    return "\n".join(lines)


def _group_lines(groups: Sequence[RankGroup]) -> list[str]:
    """Lay ranks, call and site out in columns; nothing is cut off."""
    rows = [(name_ranks(group.ranks), group.call or group.state, group.site or "", _rest(group)) for group in groups]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return [
        "  " + "   ".join(cell.ljust(width) for cell, width in zip(row, [*widths, 0], strict=True)).rstrip()
        for row in rows
    ]


def _rest(group: RankGroup) -> str:
    parts = []
    if group.sequence is not None:
        parts.append(f"call {group.sequence} on {group.communicator}")
    if group.detail:
        parts.append(group.detail)
    if group.call is not None:
        parts.append("returned" if group.has_returned else {"blocked": "waiting"}.get(group.state, group.state))
    return ", ".join(parts)


def _divergence_text(divergence: Divergence) -> str:
    sides = ", ".join(f"{name_ranks(group.ranks)} {group.call} at {group.site}" for group in divergence.groups)
    return f"first difference at call {divergence.sequence} on {divergence.communicator}: {sides}"


def notice_as_text(notice: Notice) -> str:
    """Say who waits for whom."""
    lines = [f"paceline: {notice.summary}"]
    for late in notice.late:
        stack = " < ".join(late.stack) if late.stack else "its stack cannot be read"
        lines.append(f"  rank {late.rank} is {late.doing}: {stack}")
    return "\n".join(lines)


def failures_as_text(code: int, failures: Sequence[tuple[int, End]]) -> str:
    """Say that a job failed, and that nothing was out of line."""
    groups: dict[str, list[int]] = {}
    for rank, end in failures:
        site = f" at {end.site}" if end.site else ""
        groups.setdefault(f"{end.kind.value}{site}: {end.detail}", []).append(rank)
    said = "; ".join(f"{name_ranks(ranks)} {text}" for text, ranks in groups.items())
    return f"paceline: the job ended with code {code}; no rank fell out of line" + (f" ({said})" if said else "")
