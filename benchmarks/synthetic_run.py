"""Writes the files of a synthetic run of any size: the records of ranks that stay in line until one leaves."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np

from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.operations import BY_NAME, DTYPE_CODES, REDUCTION_CODES
from paceline.guard.shared_memory.record_fields import RECORD_BYTES, WORD
from paceline.report.evidence.ring_file import RECORD

WORLD = "0123456789ab.0"
SITES = ("train.py:41", "train.py:43", "train.py:57")
_SOURCE = {str(number): f"    line {number} of the loop" for number in range(30, 70)}
_STEP_NS = 20_000_000


def write_run(folder: Path, num_ranks: int, num_calls: int, *, seed: int = 0, noted_steps: int = 0) -> None:
    """Write a run in which the last rank makes a different call than the others at the end.

    Args:
        folder: Where; it must not exist.
        num_ranks: Ranks.
        num_calls: Calls of each; records keep the last 4,096.
        seed: Of the times.
        noted_steps: Steps that the loader of each rank has noted.
    """
    folder.mkdir(parents=True)
    times = np.random.default_rng(seed)
    slow = 1 + 0.15 * times.random(num_ranks)  # some ranks are slower than others
    work = times.gamma(4.0, _STEP_NS / 8, size=(num_calls, num_ranks)) * slow
    entered = np.zeros((num_calls, num_ranks), np.int64)
    left = np.zeros_like(entered)
    now = np.full(num_ranks, 1_000_000_000, np.int64) + times.integers(0, 10**8, num_ranks)
    for call in range(num_calls):
        entered[call] = now + work[call].astype(np.int64)
        now = np.full(num_ranks, entered[call].max()) + times.integers(50_000, 400_000, num_ranks)
        left[call] = now
    for rank in range(num_ranks):
        _write_ring(folder, rank, num_ranks, entered[:, rank], left[:, rank], is_last=rank == num_ranks - 1)
        if noted_steps:
            _write_notes(folder, rank, num_ranks, entered[:noted_steps, rank].tolist())
    _write_values(folder, num_ranks, num_calls, int(now.max()) + 50_000_000)


def _write_ring(folder: Path, rank: int, num_ranks: int, entered: object, left: object, *, is_last: bool) -> None:
    begins, ends = np.asarray(entered), np.asarray(left).copy()
    num_calls = len(begins)
    ends[-1] = 0
    records = np.zeros(num_calls, RECORD)
    numbers = np.arange(num_calls)
    records["number"], records["entered_ns"], records["left_ns"] = numbers + 1, begins, ends
    records["sequence"], records["at_site"] = numbers + 1, numbers // 2 + 1
    is_barrier = numbers % 2 == 1
    records["operation"] = np.where(is_barrier, BY_NAME["torch.barrier"].code, BY_NAME["torch.all_reduce"].code)
    records["site"] = np.where(is_barrier, 2, 1)
    records["num_bytes"], records["count"] = np.where(is_barrier, -1, 4096), np.where(is_barrier, -1, 1024)
    records["dtype"] = np.where(is_barrier, 0, DTYPE_CODES["f4"])
    records["reduction"] = np.where(is_barrier, 0, REDUCTION_CODES["SUM"])
    records["root"] = layout.NOTHING
    if is_last:
        records["operation"][-1], records["site"][-1] = BY_NAME["torch.broadcast"].code, 3
        records["root"][-1] = 0
    raw = bytearray(layout.RING_BYTES)
    for record in records[-layout.NUM_SLOTS :]:
        begin = layout.RECORDS_AT + (int(record["number"]) - 1) % layout.NUM_SLOTS * RECORD_BYTES
        raw[begin : begin + RECORD_BYTES] = record.tobytes()
    words = np.frombuffer(raw, "<u8", count=layout.HEADER_BYTES // WORD)
    text = _texts(num_ranks)
    words[0], words[layout.PID] = layout.MAGIC, 10_000 + rank
    words[layout.WORLD_SIZE], words[layout.RANK] = num_ranks, rank
    words[layout.NUM_RECORDS], words[layout.JOINED] = num_calls, 900_000_000
    words[layout.TEXT_BYTES] = len(text)
    words[layout.THREADS_AT], words[layout.THREADS_AT + 1] = num_calls, 10_000 + rank
    raw[layout.TEXT_AT : layout.TEXT_AT + len(text)] = text
    (folder / f"ring.{WORLD}.{rank}").write_bytes(raw)


def _texts(num_ranks: int) -> bytes:
    told: list[dict[str, object]] = [{"cwd": "/job", "argv": ["train.py"], "executable": "python"}]
    for number, site in enumerate(SITES, start=1):
        path, line = site.split(":")
        told.append({"site": number, "frames": [[os.path.join("/job", path), int(line), "train"]]})
    told.append({"comm": 0, "id": "torch-world", "name": "WORLD", "size": num_ranks, "first": 0})
    return b"".join(json.dumps(value).encode() + b"\n" for value in told)


def _write_notes(folder: Path, rank: int, num_ranks: int, begins: list[int]) -> None:
    notes: list[dict[str, object]] = [
        {"loader": 0, "at_ns": begins[0] - 1000, "pass": 0, "num_steps": len(begins), "batch_size": 32, "rank": rank}
    ]
    for step, at in enumerate(begins):
        even = {"before": 1.4 + 0.2 * np.sin(step).item(), "after": 1.01, "moved": num_ranks // 3}
        notes.append(
            {"loader": 0, "at_ns": at, "step": step, "rows": 32, "real": 32 - step % 3, "waited_us": 90, **even}
        )
    lines = b"".join(json.dumps(note).encode() + b"\n" for note in notes)
    (folder / f"work.{10_000 + rank}.jsonl").write_bytes(lines)


def _write_values(folder: Path, num_ranks: int, num_calls: int, ended_ns: int) -> None:
    last = num_ranks - 1
    others = {
        "ranks": list(range(last)), "state": "blocked", "call": "barrier" if num_calls % 2 == 0 else "all_reduce",
        "communicator": "WORLD", "sequence": num_calls, "site": SITES[(num_calls + 1) % 2], "detail": "",
    }  # fmt: skip
    odd = {**others, "ranks": [last], "call": "broadcast", "site": SITES[2], "detail": "root 0"}
    finding = {
        "kind": "mismatch", "field": "operation", "ranks": [last], "cause": "rank-conditional-call", "latency_ms": 12.0,
        "summary": f"rank {last} fell out of line: it makes a broadcast at {SITES[2]}",
        "advice": "make the call on all ranks, or on none", "groups": [others, odd], "divergence": None,
    }  # fmt: skip
    values = {
        "run.json": {
            "version": 1, "command": ["torchrun", "train.py"], "ended": "2026-01-01T12:00:00+0000",
            "ended_ns": ended_ns,
            "worlds": [{"name": WORLD, "world_size": num_ranks, "ends": []}], "ranks_left_out": [],
        },
        "diagnosis.json": {"version": 1, "outcome": "finding", "exit_code": 90, "finding": finding},
        "sources.json": {"version": 1, "lines": {"train.py": _SOURCE}},
    }  # fmt: skip
    for name, value in values.items():
        (folder / name).write_text(json.dumps(value))
