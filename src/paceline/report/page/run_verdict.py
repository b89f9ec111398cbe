"""The verdict on a run, as a page shows it: the finding with its source lines, or how the run ended otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from paceline.errors import name_ranks
from paceline.guard.verdict.finding import Finding, RankGroup
from paceline.guard.verdict.rank_names import naming
from paceline.process.exit_codes import FINDING_CODE, signal_name, signal_of
from paceline.report.evidence.bench_result import BenchResult
from paceline.report.evidence.call_table import Calls
from paceline.report.evidence.run_files import RunFiles
from paceline.report.page.page_values import PageVerdict, PageWarning, RankCard
from paceline.report.page.rank_cards import SOURCE_AROUND, lines_around, position_text, rank_card, sentence

_UNREADABLE = "The guard found a rank out of line, but what it found cannot be read."
# how the detail of an end that nothing speaks against ends
_GOOD_ENDS = ("(0)", "(None)", "end of the script", "to SystemExit", "is not known")
_NOTHING_FOUND = "The guard found nothing out of line: no call that did not fit, nobody who could never move."


def run_verdict(run: RunFiles, calls: Calls | None) -> PageVerdict:
    """Return what became of a run."""
    if run.finding is not None:
        return _finding(run, run.finding, calls)
    outcome = (run.diagnosis or {}).get("outcome")
    ends = _ends(run)
    if outcome == "ok" and run.bench is not None and not run.bench.is_reached:
        return PageVerdict(tone="warn", label="below its target", summary=_below_text(run.bench))
    if outcome == "ok":
        num = run.world_size
        said = f"All {num:,} ranks stayed in line and ended well." if num > 1 else "The job ended well."
        return PageVerdict(tone="good", label="ended well", summary=said)
    if outcome == "failed" and run.warnings and (run.diagnosis or {}).get("exit_code") == FINDING_CODE:
        said = f"The job ended well, but with warnings; its exit code is {FINDING_CODE} because of --strict."
        return PageVerdict(tone="warn", label="warnings", summary=said)
    if outcome == "failed":
        code = (run.diagnosis or {}).get("exit_code")
        said = f"The job ended with exit code {code}{_signal(code)}."
        return PageVerdict(tone="warn", label="failed", summary=said, groups=ends, notes=(_NOTHING_FOUND,))
    if outcome == "finding":
        return PageVerdict(tone="bad", label="finding", summary=_UNREADABLE, groups=ends)
    said = "How the run ended is not on disk."
    return PageVerdict(tone="plain", label="not known", summary=said, groups=ends)


def _below_text(bench: BenchResult) -> str:
    target = "what the workload expects" if bench.expected is None else f"the target of {bench.expected:.0f}%"
    return f"The accelerators of {bench.workload} were {bench.utilisation:.1f}% busy, below {target}."


def page_warnings(run: RunFiles) -> tuple[PageWarning, ...]:
    """Return what did not stop the job, what programs do on purpose last."""
    return tuple(
        PageWarning(
            summary=sentence(warning.summary),
            cause=warning.cause,
            cause_text=warning.cause.sentence,
            advice=sentence(warning.advice),
            is_note=warning.cause.is_note,
            sites=tuple((site, lines_around(run.sources, site, around=SOURCE_AROUND)) for site in warning.sites),
        )
        for warning in sorted(run.warnings, key=lambda warning: warning.cause.is_note)
    )


def _signal(code: Any) -> str:
    """Say which signal an exit code stands for, if it does."""
    number = signal_of(code) if isinstance(code, int) else None
    return f", by {signal_name(number)}" if number is not None else ""


def _finding(run: RunFiles, finding: Finding, calls: Calls | None) -> PageVerdict:
    difference, notes = finding.first_difference, []
    if finding.latency_ms > 0:
        notes.append(f"Found {finding.latency_ms:g} ms after the event that made it certain.")
    differing: tuple[RankCard, ...] = ()
    if difference is not None:
        # the groups of a first difference are all at one position, which is said once above them
        at = (difference.communicator, difference.sequence)
        differing = tuple(_card(run, group, finding, calls, at) for group in difference.groups)
    return PageVerdict(
        tone="bad",
        label=finding.kind,
        summary=sentence(finding.summary),
        groups=tuple(_card(run, group, finding, calls) for group in finding.groups),
        first_difference=differing,
        first_difference_position=position_text(difference.sequence, difference.communicator) if difference else "",
        cause=finding.cause,
        cause_text=finding.cause.sentence,
        advice=sentence(finding.advice),
        notes=tuple(notes),
    )


def _card(
    run: RunFiles, group: RankGroup, finding: Finding, calls: Calls | None, at: tuple[str, int] | None = None
) -> RankCard:
    position = (group.communicator, group.sequence) if at is None else at
    focus = _focus(calls, group.ranks, *position)
    with naming(finding.world_ranks):
        return rank_card(group, run.sources, out_of_line=finding.ranks, focus=focus)


def _focus(
    calls: Calls | None, ranks: Sequence[int], communicator: str | None, sequence: int | None
) -> tuple[int, int] | None:
    """Return the call of a group that the timeline shows: the one at its position, or the last of its first rank."""
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


def _ends(run: RunFiles) -> tuple[RankCard, ...]:
    """Group ranks that ended badly, by how."""
    groups: dict[tuple[str, str, str], list[int]] = {}
    for rank, end in run.ends.items():
        if end.get("kind") != "exited" or not str(end.get("detail")).endswith(_GOOD_ENDS):
            key = (str(end.get("kind") or "ended"), str(end.get("site") or ""), str(end.get("detail") or ""))
            groups.setdefault(key, []).append(rank)
    return tuple(
        RankCard(
            ranks=name_ranks(ranks), state=kind, site=site, detail=detail,
            source=lines_around(run.sources, site, around=SOURCE_AROUND),
        )
        for (kind, site, detail), ranks in groups.items()
    )  # fmt: skip
