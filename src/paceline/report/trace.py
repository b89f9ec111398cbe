"""A run as a trace for Perfetto and chrome://tracing: a process for each rank, slices for calls, arrows between them.

The format is the JSON of trace events: times in microseconds, a flow from each call to the one that completed it, and
counters for steps and imbalance. It is written piece by piece, since it may be large.
"""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from paceline.guard.shared_memory.operations import BY_CODE, DTYPES, REDUCTIONS, shown_name
from paceline.report.evidence.call_table import NO_CALL, NO_COMMUNICATOR, NO_RANK, Calls, Ints
from paceline.report.evidence.drawn_calls import kind_of, rows_of
from paceline.report.evidence.evidence import Evidence, gather_evidence
from paceline.report.evidence.ring_file import RECORD
from paceline.report.evidence.run_files import RunFiles
from paceline.report.evidence.waiting import Waits
from paceline.report.safe_text import page_safe

_JOB = 1 << 20  # the process that holds what belongs to no rank
_FLOW_NS = 1
_SLICE, _BEGIN, _END = range(3)
_COLUMNS = RECORD.names or ()
_encode = json.JSONEncoder(separators=(",", ":")).encode


def write_trace(run: RunFiles, path: Path) -> None:
    """Write the trace of a run; compressed if the name ends in .gz."""
    evidence = gather_evidence(run)
    with _opened(path) as file:
        _write(file, iter(()) if evidence is None else trace_events(run, evidence))


def _opened(path: Path) -> TextIO:
    if path.suffix == ".gz":
        return io.TextIOWrapper(gzip.GzipFile(path, "wb", compresslevel=5), encoding="utf-8")
    return path.open("w", encoding="utf-8")


def _write(file: TextIO, events: Iterator[dict[str, Any]]) -> None:
    file.write('{"displayTimeUnit":"ns","traceEvents":[')
    for index, event in enumerate(events):
        file.write(",\n" if index else "\n")
        file.write(_encode(event))
    file.write("\n]}\n")


def trace_events(run: RunFiles, evidence: Evidence) -> Iterator[dict[str, Any]]:
    """Yield what names processes and threads, then all other events in the order of their times.

    Only their times are sorted; events are made one by one, since a run may have millions.
    """
    calls = evidence.calls
    rows = np.zeros(len(calls), np.int64)
    for rank in calls.ranks:
        part = calls.of_rank(rank)
        rows[part] = rows_of(calls.entered[part], calls.left[part])
    yield from _names(calls, rows)
    flows = _flows(calls, evidence.waits)
    others = [*_counters(evidence), *_instants(run, evidence)]
    times = (calls.entered, flows.begin, flows.end, np.array([event["ts"] * 1e3 for event in others], np.int64))
    kind = np.repeat(np.arange(4), [len(part) for part in times])
    index = np.concatenate([np.arange(len(part)) for part in times])
    order = np.lexsort((index, kind, np.concatenate(times)))  # of one time, slices first: arrows lie on them
    for which, number in zip(kind[order].tolist(), index[order].tolist(), strict=True):
        if which == _SLICE:
            yield _slice(calls, evidence.waits, rows, number)
        elif which in (_BEGIN, _END):
            yield _flow(calls, rows, flows, number, is_end=which == _END)
        else:
            yield others[number]


def _names(calls: Calls, rows: Ints) -> Iterator[dict[str, Any]]:
    for rank in calls.ranks:
        yield {"ph": "M", "name": "process_name", "pid": rank, "tid": 0, "args": {"name": f"rank {rank}"}}
        yield {"ph": "M", "name": "process_sort_index", "pid": rank, "tid": 0, "args": {"sort_index": rank}}
        for row in range(int(rows[calls.of_rank(rank)].max(initial=0)) + 1):
            name = "calls" if row == 0 else f"calls at the same time ({row + 1})"
            yield {"ph": "M", "name": "thread_name", "pid": rank, "tid": row, "args": {"name": name}}
    yield {"ph": "M", "name": "process_name", "pid": _JOB, "tid": 0, "args": {"name": "job"}}
    yield {"ph": "M", "name": "process_sort_index", "pid": _JOB, "tid": 0, "args": {"sort_index": -1}}


def _slice(calls: Calls, waits: Waits, rows: Ints, index: int) -> dict[str, Any]:
    record = dict(zip(_COLUMNS, calls.records[index].item(), strict=True))
    code, communicator, whom = record["operation"], calls.communicator.item(index), waits.for_rank.item(index)
    arguments: dict[str, Any] = {
        "site": page_safe(calls.sites[calls.site.item(index)]),
        "call": record["number"],
        "waited_us": waits.waited.item(index) / 1e3,
    }
    if communicator != NO_COMMUNICATOR:
        arguments["communicator"] = page_safe(calls.communicators[communicator].name)
        arguments["sequence"] = record["sequence"]
    if whom != NO_RANK:
        arguments["waited_for_rank"] = whom
    for name, known in (("dtype", DTYPES), ("reduction", REDUCTIONS)):
        if record[name]:
            arguments[name] = known[record[name]]
    arguments |= {name: record[name] for name in ("count", "num_bytes", "root", "peer", "tag") if record[name] >= 0}
    if calls.is_open[index]:
        arguments["still_inside_at_the_end"] = True
    entered = calls.entered.item(index)
    return {
        "ph": "X", "name": shown_name(BY_CODE[code].name), "cat": kind_of(code), "pid": calls.rank.item(index),
        "tid": rows.item(index), "ts": entered / 1e3, "dur": (calls.left.item(index) - entered) / 1e3,
        "args": arguments,
    }  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class _Flows:
    """Arrows between calls: indices of those that they go from and to, and when."""

    source: Ints
    target: Ints
    begin: Ints
    end: Ints


def _flows(calls: Calls, waits: Waits) -> _Flows:
    """Return arrows from the call that completed a collective to each of those that waited, and along each message."""
    last = waits.last_of_match
    waited = np.flatnonzero((last != NO_CALL) & (last != np.arange(len(last))) & ~calls.is_open & (waits.waited > 0))
    received = np.flatnonzero(waits.sent_by != NO_CALL)
    source, target = np.concatenate([last[waited], waits.sent_by[received]]), np.concatenate([waited, received])
    begin = calls.entered[source]
    end = np.maximum(np.maximum(begin, calls.entered[target]), np.minimum(calls.left[target], begin + _FLOW_NS))
    return _Flows(source=source, target=target, begin=begin, end=end)


def _flow(calls: Calls, rows: Ints, flows: _Flows, number: int, *, is_end: bool) -> dict[str, Any]:
    target = flows.target.item(number)
    index, at = (target, flows.end) if is_end else (flows.source.item(number), flows.begin)
    event = {
        "ph": "f" if is_end else "s", "id": number + 1, "name": shown_name(BY_CODE[calls.operation.item(target)].name),
        "cat": "match", "pid": calls.rank.item(index), "tid": rows.item(index), "ts": at.item(number) / 1e3,
    }  # fmt: skip
    return {**event, "bp": "e"} if is_end else event


def _counters(evidence: Evidence) -> Iterator[dict[str, Any]]:
    begin_ns = evidence.calls.begin_ns

    def counter(name: str, at_ns: int, values: dict[str, float]) -> dict[str, Any]:
        return {"ph": "C", "name": name, "pid": _JOB, "tid": 0, "ts": max(0, at_ns - begin_ns) / 1e3, "args": values}

    if evidence.work is not None:
        for step in evidence.work.steps:
            yield counter("step", step.at_ns, {"step": step.step})
            if step.imbalance_before is not None and step.imbalance_after is not None:
                yield counter("imbalance", step.at_ns, {"before": step.imbalance_before, "after": step.imbalance_after})
    elif evidence.steps is not None:
        for number, at in enumerate(evidence.steps.marks):
            yield counter("step", begin_ns + at, {"step": number})


def _instants(run: RunFiles, evidence: Evidence) -> Iterator[dict[str, Any]]:
    """Yield how ranks ended, and the finding."""
    calls = evidence.calls
    for rank, end in run.ends.items():
        if isinstance(end.get("at_ns"), int) and rank in calls.ranks:
            text = page_safe(f"{end.get('kind')}: {end.get('detail')}")
            at = max(0, end["at_ns"] - calls.begin_ns) / 1e3
            yield {"ph": "i", "s": "p", "name": text, "cat": "end", "pid": rank, "tid": 0, "ts": at}
    if run.finding is not None:
        text = page_safe(run.finding.summary)
        yield {"ph": "i", "s": "g", "name": text, "cat": "finding", "pid": _JOB, "tid": 0, "ts": calls.end / 1e3}
