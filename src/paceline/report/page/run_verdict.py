"""The verdict on a run, as a page shows it: the finding with its source lines, or how the run ended otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from paceline.errors import name_ranks
from paceline.guard.verdict.finding import Finding, GroupState, RankGroup
from paceline.process.exit_codes import signal_name, signal_of
from paceline.report.evidence.call_table import Calls
from paceline.report.evidence.run_files import RunFiles
from paceline.report.page.page_values import Group, SourceLine, Verdict

_AROUND = 4
_UNREADABLE = "The guard found a rank out of line, but what it found cannot be read."
_NOTHING_FOUND = "The guard found nothing out of line: no call that did not fit, nobody who could never move."


def run_verdict(run: RunFiles, calls: Calls | None) -> Verdict:
    """Return what became of a run."""
    if run.finding is not None:
        return _finding(run, run.finding, calls)
    outcome = (run.diagnosis or {}).get("outcome")
    ends = _ends(run)
    if outcome == "ok":
        num = run.world_size
        said = f"All {num:,} ranks stayed in line and ended well." if num > 1 else "The job ended well."
        return Verdict(tone="good", label="ended well", summary=said)
    if outcome == "failed":
        code = (run.diagnosis or {}).get("exit_code")
        said = f"The job ended with exit code {code}{_signal(code)}."
        return Verdict(tone="warn", label="failed", summary=said, groups=ends, notes=(_NOTHING_FOUND,))
    if outcome == "finding":
        return Verdict(tone="bad", label="finding", summary=_UNREADABLE, groups=ends)
    said = "How the run ended is not on disk."
    return Verdict(tone="plain", label="not known", summary=said, groups=ends)


def _signal(code: Any) -> str:
    """Say which signal an exit code stands for, if it does."""
    number = signal_of(code) if isinstance(code, int) else None
    return f", by {signal_name(number)}" if number is not None else ""


def _finding(run: RunFiles, finding: Finding, calls: Calls | None) -> Verdict:
    difference, notes = finding.first_difference, []
    if finding.latency_ms > 0:
        notes.append(f"Certain {finding.latency_ms:g} ms after the event that made it so.")
    differing: tuple[Group, ...] = ()
    if difference is not None:
        # the groups of a first difference are all at one position, which is said once above them
        at = (difference.communicator, difference.sequence)
        differing = tuple(_group(run, group, finding, calls, at) for group in difference.groups)
    return Verdict(
        tone="bad",
        label=finding.kind,
        summary=sentence(finding.summary),
        groups=tuple(_group(run, group, finding, calls) for group in finding.groups),
        divergence=differing,
        divergence_place=f"call {difference.sequence} on {difference.communicator}" if difference is not None else "",
        cause=finding.cause,
        cause_text=finding.cause.sentence,
        advice=sentence(finding.advice),
        notes=tuple(notes),
    )


def sentence(text: str) -> str:
    """Begin with a capital, unless it begins with a name."""
    return f"{text[:1].upper()}{text[1:]}" if text.partition(" ")[0].islower() else text


def _group(
    run: RunFiles, group: RankGroup, finding: Finding, calls: Calls | None, at: tuple[str, int] | None = None
) -> Group:
    position = (group.communicator, group.sequence) if at is None else at
    return Group(
        ranks=name_ranks(group.ranks) if group.ranks else "no rank",
        state=shown_state(group),
        is_out_of_line=bool(group.ranks) and set(finding.ranks).issuperset(group.ranks),
        call=group.call or "",
        place=f"call {group.sequence} on {group.communicator}" if group.sequence is not None else "",
        site=group.site or "",
        detail=group.detail,
        source=lines_around(run.sources, group.site or "", around=_AROUND),
        focus=_focus(calls, group.ranks, *position),
    )


def shown_state(group: RankGroup) -> str:
    """Name what ranks do; a call that the verdict names may have returned, and is named for what it was."""
    if group.state is not GroupState.BLOCKED:
        return group.state
    return "this call has returned" if group.has_returned else "waiting"


def _focus(
    calls: Calls | None, ranks: Sequence[int], communicator: str | None, sequence: int | None
) -> tuple[int, int] | None:
    """Return the call of a group that the timeline shows: the one of its place, or the last of its first rank."""
    if calls is None:
        return None
    rank = next((rank for rank in ranks if rank in calls.ranks), None)
    if rank is None:
        return None
    found = None
    if sequence is not None and communicator is not None:
        found = calls.last_at(rank, communicator=communicator, sequence=sequence)
    if found is None:
        part = calls.of_rank(rank)
        inside = np.flatnonzero(calls.is_open[part])
        found = part.start + int(inside[-1]) if len(inside) else part.stop - 1
        if found < part.start:
            return None
    return rank, int(calls.number[found])


def lines_around(sources: Mapping[str, Mapping[str, str]], site: str, *, around: int) -> tuple[SourceLine, ...]:
    """Return the lines around a site that were kept, as far as there are any."""
    path, _, line = site.rpartition(":")
    known = sources.get(path)
    if known is None or not line.isdigit():
        return ()
    numbers = range(max(1, int(line) - around), int(line) + around + 1)
    return tuple(
        SourceLine(number=number, text=str(known[str(number)]), is_site=number == int(line))
        for number in numbers
        if str(number) in known
    )


def _ends(run: RunFiles) -> tuple[Group, ...]:
    """Group ranks that ended badly, by how."""
    groups: dict[tuple[str, str, str], list[int]] = {}
    for rank, end in run.ends.items():
        if end.get("kind") != "exited" or not str(end.get("detail")).endswith(("(0)", "(None)", "end of the script")):
            key = (str(end.get("kind") or "ended"), str(end.get("site") or ""), str(end.get("detail") or ""))
            groups.setdefault(key, []).append(rank)
    return tuple(
        Group(
            ranks=name_ranks(ranks), state=kind, site=site, detail=detail,
            source=lines_around(run.sources, site, around=_AROUND),
        )
        for (kind, site, detail), ranks in groups.items()
    )  # fmt: skip
