"""The calls of a run as the page's script draws them: short columns of whole numbers for each rank, decoded in run.js.

A run with very many calls keeps a picture of every rank's waiting, the last calls of every rank, and all calls of the
ranks that matter.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from paceline.errors import name_ranks
from paceline.guard.shared_memory.layout import NONBLOCKING
from paceline.guard.shared_memory.operations import BY_CODE, DTYPES, REDUCTIONS, Family, shown_name
from paceline.report.evidence.call_table import NO_RANK, Calls, Ints
from paceline.report.evidence.drawn_calls import kind_of, rows_of
from paceline.report.evidence.evidence import Evidence
from paceline.report.evidence.waiting import Waits
from paceline.report.evidence.waiting_costs import Costs

TICK_NS = 100
MOST_CALLS = 120_000  # that a page holds
_MOST_BUCKETS = 480  # of the picture of a rank's waiting
_MOST_MARKS = 4000
_MOST_ARROWS = 4096
_FEWEST_LAST = 16  # calls of every rank that are kept, from the end
_MOST_RANKS_WHOLE = 24  # of a large run
_ARGUMENTS = (
    "operation", "root", "peer", "tag", "reduction", "dtype", "num_bytes", "count", "num_requests", "flags",
)  # fmt: skip


def timeline_values(
    evidence: Evidence,
    *,
    ends: Mapping[int, Mapping[str, Any]],
    focused: Sequence[int] = (),
    lines: Mapping[str, list[list[Any]]] | None = None,
    most_calls: int = MOST_CALLS,
) -> dict[str, Any]:
    """Return what the script needs.

    Args:
        evidence: All calls, who waited for whom, and where steps begin.
        ends: How ranks ended.
        focused: Ranks that the verdict points to.
        lines: A few lines of source for each site.
        most_calls: How many calls are kept one by one.
    """
    calls, waits, steps = evidence.calls, evidence.waits, evidence.steps
    kept = _kept(calls, evidence.costs, [*evidence.out_of_line, *focused], most_calls)
    texts = _SharedTexts(calls)
    rows = {rank: _columns(calls, waits, kept[rank], texts) for rank in calls.ranks}
    return {
        "tick_ns": TICK_NS,
        "end": calls.end // TICK_NS,
        "num_calls": len(calls),
        "operations": texts.operations,
        "arguments": texts.arguments,
        "sites": list(calls.sites),
        "lines": dict(lines or {}),
        "communicators": [
            [known.name, name_ranks(rank for rank in known.ranks if rank >= 0)] for known in calls.communicators
        ],
        "ranks": [{"rank": rank, **columns} for rank, columns in rows.items()],
        "steps": _thinned(steps.marks if steps is not None else ()),
        "epochs": [] if steps is None else [[at // TICK_NS, epoch] for at, epoch in steps.epochs],
        "arrows": _arrows(calls, waits, kept),
        "ends": [_end(end, calls) for rank, end in sorted(ends.items()) if rank in calls.ranks],
        "out_of_line": list(evidence.out_of_line),
        "heat": None if len(calls) <= most_calls else _heat(calls, waits),
    }


def _kept(calls: Calls, costs: Costs, wanted: Sequence[int], most_calls: int) -> dict[int, slice]:
    """Choose the calls that are kept one by one, for each rank."""
    parts = {rank: calls.of_rank(rank) for rank in calls.ranks}
    if len(calls) <= most_calls:
        return parts
    last = max(_FEWEST_LAST, most_calls // 2 // max(1, len(parts)))
    by_cost = sorted(costs.ranks, key=lambda cost: -cost.seconds_caused)
    by_wait = sorted(costs.ranks, key=lambda cost: -cost.seconds_waited)
    whole = [*wanted, *(cost.rank for cost in by_cost[:4]), *(cost.rank for cost in by_wait[:2])]
    room = most_calls // 2
    kept = {rank: slice(max(part.start, part.stop - last), part.stop) for rank, part in parts.items()}
    for rank in list(dict.fromkeys(rank for rank in whole if rank in parts))[:_MOST_RANKS_WHOLE]:
        size = parts[rank].stop - parts[rank].start
        if size <= room:
            kept[rank], room = parts[rank], room - size
    return kept


class _SharedTexts:
    """Numbers for texts that many calls share: their operations and arguments."""

    def __init__(self, calls: Calls) -> None:
        codes = np.unique(calls.operation).tolist()
        self.operations = [[shown_name(BY_CODE[code].name), kind_of(code)] for code in codes]
        self.number_of_code = np.zeros(max(BY_CODE) + 1, np.int64)
        self.number_of_code[codes] = np.arange(len(codes))
        self.arguments: list[str] = []
        self._numbers: dict[tuple[int, ...], int] = {}

    def number_of_arguments(self, values: tuple[int, ...]) -> int:
        """Return the number of a call's arguments, given as `_ARGUMENTS` names them."""
        if values not in self._numbers:
            self._numbers[values] = len(self.arguments)
            self.arguments.append(_arguments_text(**dict(zip(_ARGUMENTS, values, strict=True))))
        return self._numbers[values]


def _arguments_text(
    *, operation: int, root: int, peer: int, tag: int, reduction: int, dtype: int, num_bytes: int, count: int,
    num_requests: int, flags: int,
) -> str:  # fmt: skip
    parts = []
    if root >= 0:
        parts.append(f"root {root}")
    if peer >= 0:
        parts.append(f"peer {peer}")
    if tag >= 0:
        parts.append(f"tag {tag}")
    if REDUCTIONS[reduction] not in ("none", "unknown"):
        parts.append(REDUCTIONS[reduction])
    if count >= 0:
        parts.append(f"{count:,} x {DTYPES[dtype]}")
    if BY_CODE[operation].family is Family.WAIT and num_requests >= 0:
        parts.append(f"{num_requests:,} requests")
    if num_bytes >= 0:
        parts.append(f"{num_bytes:,} bytes")
    if flags & NONBLOCKING:
        parts.append("only started")
    return ", ".join(parts)


def _columns(calls: Calls, waits: Waits, part: slice, texts: _SharedTexts) -> dict[str, Any]:
    """Return the calls of one rank; times as differences, since these are short."""
    records = calls.records[part]
    entered = calls.entered[part] // TICK_NS
    arguments = zip(*(records[name].tolist() for name in _ARGUMENTS), strict=True)
    return {
        "number": _differences(calls.number[part]),
        "at": _differences(entered),
        "took": ((calls.left[part] // TICK_NS) - entered).tolist(),
        "waited": (waits.waited[part] // TICK_NS).tolist(),
        "for": waits.for_rank[part].tolist(),
        "operation": texts.number_of_code[records["operation"]].tolist(),
        "site": calls.site[part].tolist(),
        "communicator": calls.communicator[part].tolist(),
        "sequence": records["sequence"].tolist(),
        "arguments": list(map(texts.number_of_arguments, arguments)),
        "row": rows_of(calls.entered[part], calls.left[part]).tolist(),
        "open": np.flatnonzero(calls.is_open[part]).tolist(),
    }


def _differences(values: Ints) -> list[int]:
    differences: list[int] = np.diff(values, prepend=0).tolist()
    return differences


def _thinned(marks: Sequence[int]) -> list[int]:
    ticks = [mark // TICK_NS for mark in marks]
    return ticks if len(ticks) <= _MOST_MARKS else []


def _arrows(calls: Calls, waits: Waits, kept: Mapping[int, slice]) -> list[list[int]]:
    """Return who waits for whom at the end: the rank, its call, and the rank that it waits for."""
    rows = np.flatnonzero(calls.is_open & (waits.for_rank != NO_RANK))[:_MOST_ARROWS]
    arrows = []
    for row in rows.tolist():
        rank = int(calls.rank[row])
        if kept[rank].start <= row < kept[rank].stop:
            arrows.append([rank, int(calls.number[row]), int(waits.for_rank[row])])
    return arrows


def _end(end: Mapping[str, Any], calls: Calls) -> dict[str, Any]:
    at = end.get("at_ns")
    ticks = (at - calls.begin_ns) // TICK_NS if isinstance(at, int) else calls.end // TICK_NS
    return {"rank": end["rank"], "at": ticks, "kind": str(end.get("kind", "exited"))}


def _heat(calls: Calls, waits: Waits) -> dict[str, Any]:
    """Return which share of each of some hundred spans every rank waited, as one byte each."""
    edges = np.linspace(0, calls.end, _MOST_BUCKETS + 1)
    width = calls.end / _MOST_BUCKETS
    shares = np.zeros((len(calls.ranks), _MOST_BUCKETS), np.uint8)
    for index, rank in enumerate(calls.ranks):
        part = calls.of_rank(rank)
        if part.start == part.stop:
            continue
        order = np.argsort(calls.entered[part], kind="stable")
        begins, waited = calls.entered[part][order], waits.waited[part][order]
        before = np.concatenate([[0], np.cumsum(waited)])
        num_begun = np.searchsorted(begins, edges, side="right")
        last = np.maximum(num_begun - 1, 0)
        beyond = np.where(num_begun > 0, np.maximum(0, begins[last] + waited[last] - edges), 0)
        covered = np.diff(before[num_begun] - beyond)
        shares[index] = np.clip(np.round(covered / width * 255), 0, 255)
    return {"buckets": _MOST_BUCKETS, "bytes": base64.b64encode(shares.tobytes()).decode("ascii")}
