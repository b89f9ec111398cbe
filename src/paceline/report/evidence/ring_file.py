"""Reads the record that one rank has left on disk. What is cut off or broken is left out, and said."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.operations import BY_CODE, DTYPES, REDUCTIONS

UNKNOWN_SITE = "?"
RECORD = np.dtype(
    {
        "names": [
            "number", "entered", "left", "sequence", "at_site", "num_bytes", "count", "root", "tag", "site", "comm",
            "operation", "dtype", "reduction", "flags", "request", "matched_source", "matched_tag", "source",
            "source_tag", "source_dtype", "source_bytes", "source_sequence",
        ],
        "formats": [
            "<u8", "<u8", "<u8", "<i8", "<u8", "<i8", "<i8", "<i4", "<i4", "<u4", "<u2",
            "<u2", "<u2", "<u2", "<u2", "<u2", "<i4", "<i4", "<i4", "<i4", "<u4", "<i8", "<i8",
        ],
        "offsets": [
            0, 8, 16, 24, 32, 40, 48, 56, 60, 64, 68, 70, 72, 74, 76, 78, 80, 84, 88, 92, 96, 100, 108,
        ],
        "itemsize": layout.RECORD_BYTES,
    }
)  # fmt: skip
_MOST_OPERATION = max(BY_CODE)
_HOUR_NS = 3600 * 10**9

Records = NDArray[Any]  # of RECORD


@dataclass(slots=True, kw_only=True)
class RankRecord:
    """The record of one rank.

    Attributes:
        rank: The rank.
        world_size: Ranks of its job, as it says itself.
        pid: Its process.
        joined_ns: When it joined the job.
        num_calls: Calls that it has made; the record keeps the last few thousand.
        calls: What is kept of them, oldest first.
        open_calls: Numbers of the calls that it was inside at the end.
        sites: Places by their number, as file:line.
        communicators: What it has told of them, by number.
        carriers: Its number among the ranks of each carrier.
        problems: What could not be read.
    """

    rank: int
    world_size: int
    pid: int
    joined_ns: int
    num_calls: int
    calls: Records
    open_calls: frozenset[int]
    sites: dict[int, str] = field(default_factory=dict)
    communicators: dict[int, dict[str, Any]] = field(default_factory=dict)
    carriers: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def read_ring(path: Path, rank: int) -> RankRecord | str:
    """Return what can be read of a record, or why nothing can."""
    try:
        with path.open("rb") as file:
            raw = file.read(layout.RING_BYTES)
    except OSError as error:
        return f"rank {rank}: its record cannot be read: {error.strerror}"
    num_bytes = len(raw)
    raw = raw.ljust(layout.RING_BYTES, b"\0")
    words = np.frombuffer(raw, "<u8", count=layout.HEADER_BYTES // layout.WORD)
    if int(words[0]) != layout.MAGIC:
        return f"rank {rank}: its record is not one: it does not begin as records do"
    record = _with_calls(raw, words, rank)
    if num_bytes < layout.RING_BYTES:
        record.problems.append(f"its record is cut off after {num_bytes:,} of {layout.RING_BYTES:,} bytes")
    _read_texts(record, raw, int(words[layout.TEXT_BYTES]))
    return record


def _with_calls(raw: bytes, words: NDArray[np.uint64], rank: int) -> RankRecord:
    num_calls, joined = int(words[layout.NUM_RECORDS]), int(words[layout.JOINED])
    records = np.frombuffer(raw, RECORD, count=layout.NUM_SLOTS, offset=layout.RECORDS_AT)
    slots = np.arange(layout.NUM_SLOTS, dtype=np.uint64)
    used = records["number"] > 0
    good = used & ((records["number"] - 1) % layout.NUM_SLOTS == slots)
    good &= (records["operation"] > 0) & (records["operation"] <= _MOST_OPERATION)
    good &= (records["dtype"] < len(DTYPES)) & (records["reduction"] < len(REDUCTIONS))
    good &= (records["left"] == 0) | (records["left"] >= records["entered"])
    good &= (records["entered"] + _HOUR_NS > joined) & (records["entered"] < joined + 100_000 * _HOUR_NS)
    kept = np.flatnonzero(good)
    calls = records[kept[np.argsort(records["number"][kept], kind="stable")]]
    threads = words[layout.THREADS_AT : layout.THREADS_AT + layout.MAX_THREADS * layout.THREAD_WORDS]
    inside = threads[:: layout.THREAD_WORDS].tolist()
    carriers = {"mpi": int(words[layout.MPI_RANK]) - 1, "torch": int(words[layout.TORCH_RANK]) - 1}
    record = RankRecord(
        rank=rank, world_size=int(words[layout.WORLD_SIZE]), pid=int(words[layout.PID]), joined_ns=joined,
        num_calls=num_calls, calls=calls, open_calls=frozenset(number - 1 for number in inside if number),
        carriers={carrier: number for carrier, number in carriers.items() if number >= 0},
    )  # fmt: skip
    missing = min(num_calls, layout.NUM_SLOTS) - len(calls)
    broken = int(used.sum() - good.sum())
    if broken > 0:
        record.problems.append(f"{broken:,} of its calls are not readable")
    elif missing > 0:
        record.problems.append(f"{missing:,} of its calls are not in its record")
    return record


def _read_texts(record: RankRecord, raw: bytes, num_bytes: int) -> None:
    """Take in what the rank has said: its folder, its sites, its communicators."""
    end = layout.TEXT_AT + min(num_bytes, layout.TEXT_BYTES_MAX)
    folder, num_broken = "", 0
    for line in raw[layout.TEXT_AT : end].split(b"\n"):
        if not line.strip(b"\0"):
            num_broken += bool(line)
            continue
        try:
            value = json.loads(line)
            if "site" in value:
                record.sites[int(value["site"])] = _site(value["frames"], folder)
            elif "comm" in value:
                record.communicators[int(value["comm"])] = _communicator(value)
            elif "cwd" in value:
                folder = str(value["cwd"])
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
            num_broken += 1
    if num_broken:
        record.problems.append("names of its call sites and communicators are not all readable")


def _site(frames: list[list[Any]], folder: str) -> str:
    if not frames:
        return UNKNOWN_SITE
    path, line = str(frames[0][0]), int(frames[0][1])
    if folder and path.startswith(f"{folder}{os.sep}"):
        path = path[len(folder) + 1 :]
    return f"{path}:{line}"


def _communicator(value: dict[str, Any]) -> dict[str, Any]:
    ranks = value.get("ranks")
    return {
        "id": str(value["id"]),
        "name": str(value["name"]),
        "size": int(value["size"]),
        "ranks": None if ranks is None else [int(rank) for rank in ranks],
        "first": int(value["first"]),
    }
