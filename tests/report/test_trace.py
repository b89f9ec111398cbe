"""The trace is what viewers expect: slices that do not overlap, arrows with both ends, times in order."""

from __future__ import annotations

import gzip
import json
import threading
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.report.recorded import Job, finding

from paceline.guard.shared_memory.operations import BY_NAME
from paceline.report.evidence.run_files import read_run
from paceline.report.trace import write_trace
from synthetic_run import write_run


def trace_of(folder: Path, name: str = "trace.json") -> list[dict[str, Any]]:
    path = folder / name
    write_trace(read_run(folder), path)
    raw = path.read_bytes()
    value = json.loads(gzip.decompress(raw) if name.endswith(".gz") else raw)
    events: list[dict[str, Any]] = value["traceEvents"]
    return events


def check_structure(events: list[dict[str, Any]]) -> None:
    timed = [event for event in events if event["ph"] != "M"]
    assert {event["ph"] for event in timed} <= {"X", "s", "f", "C", "i"}
    assert all(event["ts"] >= 0 and isinstance(event["pid"], int) for event in timed)
    assert [event["ts"] for event in timed] == sorted(event["ts"] for event in timed)
    slices: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for event in timed:
        if event["ph"] == "X":
            assert event["dur"] >= 0
            slices.setdefault((event["pid"], event["tid"]), []).append(event)
    for thread in slices.values():
        for event, after in pairwise(thread):
            assert event["ts"] + event["dur"] <= after["ts"] + 1e-6
    check_flows(timed, slices)
    named = {(event["pid"], event["name"]) for event in events if event["ph"] == "M"}
    assert all((pid, "process_name") in named for pid in {event["pid"] for event in timed})


def check_flows(timed: list[dict[str, Any]], slices: dict[tuple[int, int], list[dict[str, Any]]]) -> None:
    """Every arrow begins and ends once, not before it begins, and inside a slice."""
    begins = {event["id"]: event for event in timed if event["ph"] == "s"}
    ends = {event["id"]: event for event in timed if event["ph"] == "f"}
    assert Counter(event["ph"] for event in timed)["s"] == len(begins) == len(ends)
    assert begins.keys() == ends.keys()
    for number, begin in begins.items():
        assert ends[number]["ts"] >= begin["ts"]
        for event in (begin, ends[number]):
            thread = slices[event["pid"], event["tid"]]
            assert any(one["ts"] - 1e-6 <= event["ts"] <= one["ts"] + one["dur"] + 1e-6 for one in thread)


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_a_large_run_gives_a_trace_of_the_right_structure(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "run"
    write_run(folder, 5, 40, noted_steps=20)
    events = trace_of(folder, name)
    check_structure(events)
    counted = Counter(event["ph"] for event in events)
    assert counted["X"] == 5 * 40
    assert counted["s"] == 4 * 39  # all but the last to come, in each position that was completed
    assert {event["name"] for event in events if event["ph"] == "C"} == {"step", "imbalance"}


def test_times_are_microseconds(tmp_path: Path) -> None:
    job = Job(tmp_path, 2)
    job.together("Barrier", late=1, seconds=0.02)
    first = next(event for event in trace_of(job.finish()) if event["ph"] == "X" and event["pid"] == 0)
    assert 20_000 <= first["dur"] < 20_000_000
    assert first["args"]["waited_for_rank"] == 1
    assert 20_000 <= first["args"]["waited_us"] <= first["dur"]


def test_calls_of_several_threads_get_a_thread_each(tmp_path: Path) -> None:
    job = Job(tmp_path, 1)
    outer = job.enter(0, "Barrier")
    other = threading.Thread(target=lambda: job.leave(0, job.enter(0, "Allreduce")))
    other.start()
    other.join()
    job.leave(0, outer)
    events = trace_of(job.finish())
    check_structure(events)
    assert {event["tid"] for event in events if event["ph"] == "X"} == {0, 1}


def test_messages_are_arrows_from_sender_to_receiver(tmp_path: Path) -> None:
    job = Job(tmp_path, 2)
    sender, receiver = job.recorders
    for number in (1, 2):
        taken = receiver.begin_message(0, BY_NAME["Recv"].code, message_number=number, peer=0, tag=1, depth=1)
        sent = sender.begin_message(0, BY_NAME["Send"].code, message_number=number, peer=1, tag=1, depth=1)
        sender.leave(sent)
        receiver.leave(taken)
    events = trace_of(job.finish())
    check_structure(events)
    assert [event["pid"] for event in events if event["ph"] == "s"] == [0, 0]
    assert [event["pid"] for event in events if event["ph"] == "f"] == [1, 1]


def test_the_finding_and_the_ends_of_ranks_are_marked(tmp_path: Path) -> None:
    job = Job(tmp_path, 2)
    job.together("Barrier")
    ends = [{"rank": 1, "kind": "raised", "detail": "ValueError: x", "site": "", "at_ns": 5}]
    events = trace_of(job.finish(finding(), ends=ends))
    check_structure(events)
    names = [event["name"] for event in events if event["ph"] == "i"]
    assert names == ["raised: ValueError: x", "rank 1 fell out of line"]


def test_a_run_without_records_gives_an_empty_trace(tmp_path: Path) -> None:
    folder = Job(tmp_path, 1).finish()
    for path in folder.glob("ring.*"):
        path.unlink()
    assert trace_of(folder) == []
