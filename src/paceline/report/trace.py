"""A run as a trace for Perfetto and chrome://tracing: a process for each rank, slices for calls, arrows between them.

The format is the JSON of trace events: times in microseconds, a flow from each call to the one that completed it, and
counters for steps and imbalance. It is written piece by piece, since it may be large.
"""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from paceline.guard.operations import BY_CODE, DTYPES, REDUCTIONS, shown_name
from paceline.report.evidence.calls import NOBODY, Calls
from paceline.report.evidence.run_files import RunFiles
from paceline.report.evidence.waiting import Waits
from paceline.report.page.printable import printable
from paceline.report.page.timeline import kind_of, rows_of
from paceline.report.run_page import Evidence, gather_evidence

_JOB = 1 << 20  # the process that holds what is of no rank
_FLOW_NS = 1


def write_trace(run: RunFiles, path: Path) -> None:
    """Write the trace of a run; compressed if the name ends in .gz."""
    evidence = gather_evidence(run)
    with _opened(path) as file:
        _write(file, iter(()) if evidence is None else trace_events(run, evidence))


def _opened(path: Path) -> TextIO:
    if path.suffix == ".gz":
        return io.TextIOWrapper(gzip.GzipFile(path, "wb"), encoding="utf-8")
    return path.open("w", encoding="utf-8")


def _write(file: TextIO, events: Iterator[dict[str, Any]]) -> None:
    file.write('{"displayTimeUnit":"ns","traceEvents":[')
    for index, event in enumerate(events):
        file.write(",\n" if index else "\n")
        file.write(json.dumps(event, separators=(",", ":")))
    file.write("\n]}\n")


def trace_events(run: RunFiles, evidence: Evidence) -> Iterator[dict[str, Any]]:
    """Yield what names processes and threads, then all other events in the order of their times."""
    calls, waits = evidence.calls, evidence.waits
    rows = np.zeros(len(calls), np.int64)
    for rank in calls.ranks:
        part = calls.of_rank(rank)
        rows[part] = rows_of(calls.entered[part], calls.left[part])
    yield from _names(calls, rows)
    events = [
        *_slices(calls, waits, rows),
        *_flows(calls, waits, rows),
        *_counters(evidence),
        *_instants(run, evidence),
    ]
    yield from sorted(events, key=lambda event: (event["ts"], event["ph"] != "X"))


def _names(calls: Calls, rows: Any) -> Iterator[dict[str, Any]]:
    for rank in calls.ranks:
        yield {"ph": "M", "name": "process_name", "pid": rank, "tid": 0, "args": {"name": f"rank {rank}"}}
        yield {"ph": "M", "name": "process_sort_index", "pid": rank, "tid": 0, "args": {"sort_index": rank}}
        for row in range(int(rows[calls.of_rank(rank)].max(initial=0)) + 1):
            name = "calls" if row == 0 else f"calls at the same time ({row + 1})"
            yield {"ph": "M", "name": "thread_name", "pid": rank, "tid": row, "args": {"name": name}}
    yield {"ph": "M", "name": "process_name", "pid": _JOB, "tid": 0, "args": {"name": "job"}}
    yield {"ph": "M", "name": "process_sort_index", "pid": _JOB, "tid": 0, "args": {"sort_index": -1}}


def _slices(calls: Calls, waits: Waits, rows: Any) -> Iterator[dict[str, Any]]:
    records = calls.records
    for index in range(len(calls)):
        code = int(records["operation"][index])
        arguments: dict[str, Any] = {
            "site": printable(calls.sites[int(calls.site[index])]),
            "call": int(calls.number[index]),
            "waited_us": int(waits.waited[index]) / 1e3,
        }
        communicator = int(calls.communicator[index])
        if communicator >= 0:
            arguments["communicator"] = printable(calls.communicators[communicator].name)
            arguments["position"] = int(records["sequence"][index])
        if waits.for_rank[index] != NOBODY:
            arguments["waited_for_rank"] = int(waits.for_rank[index])
        for name, known in (("dtype", DTYPES), ("reduction", REDUCTIONS)):
            if records[name][index]:
                arguments[name] = known[int(records[name][index])]
        for name in ("count", "num_bytes", "root", "tag"):
            if records[name][index] >= 0:
                arguments[name] = int(records[name][index])
        if calls.is_open[index]:
            arguments["still_inside_at_the_end"] = True
        yield {
            "ph": "X", "name": shown_name(BY_CODE[code].name), "cat": kind_of(code), "pid": int(calls.rank[index]),
            "tid": int(rows[index]), "ts": int(calls.entered[index]) / 1e3,
            "dur": int(calls.left[index] - calls.entered[index]) / 1e3, "args": arguments,
        }  # fmt: skip


def _flows(calls: Calls, waits: Waits, rows: Any) -> Iterator[dict[str, Any]]:
    """Yield an arrow from the call that completed a collective to each of those that waited, and along each message."""
    number = 0
    for index in np.flatnonzero((waits.last_of_match != NOBODY) & ~calls.is_open).tolist():
        last = int(waits.last_of_match[index])
        if last != index and waits.waited[index] > 0:
            number += 1
            yield from _flow(calls, rows, number, last, index, shown_name(BY_CODE[int(calls.operation[index])].name))
    for index in np.flatnonzero(waits.sent_by != NOBODY).tolist():
        number += 1
        yield from _flow(calls, rows, number, int(waits.sent_by[index]), index, "message")


def _flow(calls: Calls, rows: Any, number: int, source: int, target: int, name: str) -> Iterator[dict[str, Any]]:
    begin = int(calls.entered[source])
    end = max(begin, int(calls.entered[target]), min(int(calls.left[target]), begin + _FLOW_NS))
    for phase, index, at in (("s", source, begin), ("f", target, end)):
        event = {
            "ph": phase, "id": number, "name": name, "cat": "match", "pid": int(calls.rank[index]),
            "tid": int(rows[index]), "ts": at / 1e3,
        }  # fmt: skip
        yield {**event, "bp": "e"} if phase == "f" else event


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
            text = printable(f"{end.get('kind')}: {end.get('detail')}")
            at = max(0, end["at_ns"] - calls.begin_ns) / 1e3
            yield {"ph": "i", "s": "p", "name": text, "cat": "end", "pid": rank, "tid": 0, "ts": at}
    if run.finding is not None:
        text = printable(str(run.finding.get("summary")))
        yield {"ph": "i", "s": "g", "name": text, "cat": "finding", "pid": _JOB, "tid": 0, "ts": calls.end / 1e3}
