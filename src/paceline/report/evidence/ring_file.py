"""Reads the record that one rank has left on disk. What is cut off or broken is left out, and said."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.operations import BY_CODE, DTYPES, REDUCTIONS, Family
from paceline.guard.shared_memory.record_fields import WORD, array_fields
from paceline.guard.shared_memory.ring_texts import CommunicatorText, RingTexts
from paceline.process.foreign_files import read_foreign

RECORD = np.dtype(array_fields())  # type: ignore[call-overload]
_MOST_OPERATION = max(BY_CODE)
_HOUR_NS = 3600 * 10**9
_LONGEST_NS = 100_000 * _HOUR_NS
_MAX_NS = 1 << 62  # with the longest run added it still fits into 64 bits
_COLLECTIVES = [code for code, operation in BY_CODE.items() if operation.family is Family.COLLECTIVE]
_NO_MESSAGE = {
    "peer": layout.NOTHING, "tag": layout.NOTHING, "source": layout.NOTHING, "source_tag": layout.NOTHING,
    "num_requests": -1, "source_dtype": 0, "message_number": 0, "source_number": 0, "source_bytes": -1,
}  # fmt: skip

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
        sites: Call sites by their number, as file:line.
        communicators: What it has said of them, by number.
        worlds: Its rank in each of its worlds, by their names.
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
    communicators: dict[int, CommunicatorText] = field(default_factory=dict)
    worlds: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def read_ring(path: Path, rank: int) -> RankRecord | str:
    """Return what can be read of a record, or why nothing can."""
    try:
        raw = read_foreign(path, most=layout.RING_BYTES)
    except OSError as error:
        return f"rank {rank}: its record cannot be read: {error.strerror}"
    num_bytes = len(raw)
    raw = raw.ljust(layout.RING_BYTES, b"\0")
    words = np.frombuffer(raw, "<u8", count=layout.HEADER_BYTES // WORD)
    if int(words[0]) != layout.MAGIC or int(words[layout.JOINED]) >= _MAX_NS:
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
    good &= (records["left_ns"] == 0) | (records["left_ns"] >= records["entered_ns"])
    good &= (records["entered_ns"] + _HOUR_NS > joined) & (records["entered_ns"] < joined + _LONGEST_NS)
    good &= records["left_ns"] < joined + _LONGEST_NS
    kept = np.flatnonzero(good)
    calls = records[kept[np.argsort(records["number"][kept], kind="stable")]]
    is_collective = np.isin(calls["operation"], _COLLECTIVES)
    for name, nothing in _NO_MESSAGE.items():  # collectives leave the fields of messages as an earlier call set them
        calls[name][is_collective] = nothing
    threads = words[layout.THREADS_AT : layout.THREADS_AT + layout.MAX_THREADS * layout.THREAD_WORDS]
    inside = threads[:: layout.THREAD_WORDS].tolist()
    record = RankRecord(
        rank=rank, world_size=int(words[layout.WORLD_SIZE]), pid=int(words[layout.PID]), joined_ns=joined,
        num_calls=num_calls, calls=calls, open_calls=frozenset(number - 1 for number in inside if number),
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
    texts, num_broken = RingTexts(), 0
    for line in raw[layout.TEXT_AT : end].split(b"\n"):
        if line.strip(b"\0"):
            num_broken += not texts.read_line(line)
        else:
            num_broken += bool(line)
    record.sites.update({number: text.site for number, text in texts.sites.items()})
    record.communicators.update(texts.communicators)
    record.worlds.update({name: world.rank for name, world in texts.worlds.items()})
    if num_broken:
        record.problems.append("names of its call sites and communicators are not all readable")
