"""The verdict on a run, as a page shows it: the finding with its source lines, or how the run ended otherwise."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from typing import Any

import numpy as np

from paceline.errors import name_ranks
from paceline.report.evidence.call_table import Calls
from paceline.report.evidence.run_files import RunFiles
from paceline.report.page.page_values import PageVerdict, RankCard
from paceline.report.page.rank_cards import lines_around, position_text, sentence
from paceline.report.text.finding_text import CAUSES

_AROUND = 4
_NOTHING_FOUND = "The guard found nothing out of line: no call that did not fit, nobody who could never move."


def run_verdict(run: RunFiles, calls: Calls | None) -> PageVerdict:
    """Return what became of a run."""
    if run.finding is not None:
        return _finding(run, run.finding, calls)
    outcome = (run.diagnosis or {}).get("outcome")
    ends = _ends(run)
    if outcome == "ok":
        num = run.world_size
        said = f"All {num:,} ranks stayed in line and ended well." if num > 1 else "The job ended well."
        return PageVerdict(tone="good", label="ended well", summary=said)
    if outcome == "failed":
        code = (run.diagnosis or {}).get("exit_code")
        said = f"The job ended with exit code {code}{_signal(code)}."
        return PageVerdict(tone="warn", label="failed", summary=said, groups=ends, notes=(_NOTHING_FOUND,))
    said = "How the run ended is not on disk."
    return PageVerdict(tone="plain", label="not known", summary=said, groups=ends)


def _signal(code: Any) -> str:
    """Say which signal an exit code stands for, if it does."""
    try:
        return f", by {signal.Signals(code - 128).name}" if isinstance(code, int) and code > 128 else ""
    except ValueError:
        return ""


def _finding(run: RunFiles, finding: Mapping[str, Any], calls: Calls | None) -> PageVerdict:
    out_of_line = {rank for rank in _list(finding, "ranks") if isinstance(rank, int)}
    divergence = finding.get("divergence") if isinstance(finding.get("divergence"), dict) else {}
    assert isinstance(divergence, dict)
    cause = str(finding.get("cause") or "")
    latency = finding.get("latency_ms")
    notes = []
    if isinstance(latency, int | float) and latency > 0:
        notes.append(f"Certain {latency:g} ms after the event that made it so.")
    return PageVerdict(
        tone="bad",
        label=str(finding.get("kind") or "finding"),
        summary=sentence(str(finding.get("summary") or "A rank fell out of line.")),
        groups=tuple(_group(run, told, calls, out_of_line, {}) for told in _dicts(finding, "groups")),
        first_difference=tuple(
            _group(run, told, calls, out_of_line, divergence) for told in _dicts(divergence, "groups")
        ),
        first_difference_position=position_text(divergence.get("sequence"), divergence.get("communicator")),
        cause=cause,
        cause_text=CAUSES.get(cause, ""),
        advice=sentence(str(finding.get("advice") or "")),
        notes=tuple(notes),
    )


def _group(
    run: RunFiles, told: Mapping[str, Any], calls: Calls | None, out_of_line: set[int], divergence: Mapping[str, Any]
) -> RankCard:
    ranks = [rank for rank in _list(told, "ranks") if isinstance(rank, int)]
    sequence = told.get("sequence", divergence.get("sequence"))
    communicator = told.get("communicator", divergence.get("communicator"))
    state = str(told.get("state") or "")
    site = str(told.get("site") or "")
    is_place = isinstance(sequence, int) and communicator
    focus = _focus(calls, ranks, communicator, sequence)
    return RankCard(
        ranks=name_ranks(ranks) if ranks else "no rank",
        state=_shown_state(state, calls, focus),
        is_out_of_line=bool(ranks) and out_of_line.issuperset(ranks),
        call=str(told.get("call") or ""),
        position=position_text(sequence, communicator) if is_place and not divergence else "",
        site=site,
        detail=str(told.get("detail") or ""),
        source=lines_around(run.sources, site, around=_AROUND),
        focus=focus,
    )


def _shown_state(state: str, calls: Calls | None, focus: tuple[int, int] | None) -> str:
    """Name what ranks do; a call that the verdict names may have returned, and is named for what it was."""
    if state != "blocked":
        return state
    if calls is not None and focus is not None:
        part = calls.of_rank(focus[0])
        inside = calls.is_open[part][calls.number[part] == focus[1]]
        if len(inside) and not inside[0]:
            return "this call has returned"
    return "waiting"


def _focus(calls: Calls | None, ranks: list[int], communicator: Any, sequence: Any) -> tuple[int, int] | None:
    """Return the call of a group that the timeline shows: the one of its place, or the last of its first rank."""
    if calls is None:
        return None
    rank = next((rank for rank in ranks if rank in calls.ranks), None)
    if rank is None:
        return None
    found = None
    if isinstance(sequence, int) and communicator:
        found = calls.last_at(rank, communicator=str(communicator), sequence=sequence)
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
        if end.get("kind") != "exited" or not str(end.get("detail")).endswith(("(0)", "(None)", "end of the script")):
            key = (str(end.get("kind") or "ended"), str(end.get("site") or ""), str(end.get("detail") or ""))
            groups.setdefault(key, []).append(rank)
    return tuple(
        RankCard(
            ranks=name_ranks(ranks), state=kind, site=site, detail=detail,
            source=lines_around(run.sources, site, around=_AROUND),
        )
        for (kind, site, detail), ranks in groups.items()
    )  # fmt: skip


def _list(value: Mapping[str, Any], key: str) -> list[Any]:
    found = value.get(key)
    return found if isinstance(found, list) else []


def _dicts(value: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    return [inner for inner in _list(value, key) if isinstance(inner, dict)]
