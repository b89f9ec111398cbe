"""The ranks of one job as the judge sees them: records and processes put together into snapshots.

`Rings` is what the judge needs of a source of records; shared memory of this machine is one.
"""

from __future__ import annotations

import errno
import os
import resource
import select
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from paceline.guard.observe.kernel_view import Watched, activity
from paceline.guard.observe.ring_reader import RingReader
from paceline.guard.shared_memory import layout
from paceline.guard.verdict.finding import Cause
from paceline.guard.verdict.snapshot import End, EndKind, Membership, RankState, Snapshot
from paceline.process.exit_codes import signal_name
from paceline.process.procfs import out_of_memory_kills

_MAX_MESSAGE = 200  # characters of an exception's message that are shown
_LOST_MESSAGES = layout.LOST_CHANNELS | layout.LOST_MESSAGES | layout.LOST_REQUESTS | layout.LOST_COMMUNICATORS
_BY_PEER = (
    "closed by peer",
    "reset by peer",
    "broken pipe",
    "connection refused",
    "timed out waiting",
    "remote process",
)
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # the disk, a quota, or a limit on file sizes is full
_MEMORY_SECONDS = 0.5


class Rings(Protocol):
    """Where the records of ranks come from."""

    def worlds(self) -> list[World]:
        """Return the jobs that are known now."""

    def wait(self, seconds: float) -> None:
        """Wait so long, or until a rank has ended."""

    def problems(self) -> list[str]:
        """Return what ranks said that could not be watched."""

    def close(self) -> None:
        """Let go of everything."""


@dataclass(slots=True)
class Rank:
    """One rank: its record and its process."""

    reader: RingReader
    process: Watched
    kills_before: int
    memory: list[tuple[float, int]] = field(default_factory=list)  # (when, bytes), the last few
    cpu: dict[str, float] = field(default_factory=dict)


class World:
    """The ranks of one job."""

    def __init__(self, name: str, world_size: int) -> None:
        self.name, self.world_size = name, world_size
        self.ranks: dict[int, Rank] = {}
        self._kills = out_of_memory_kills()

    def let_go_on(self, rank: int) -> None:
        """Tell a rank that stopped before a call to make it."""
        self.ranks[rank].reader.let_go_on()

    def add(self, rank: int, reader: RingReader) -> None:
        """Add a rank that has been seen."""
        process = Watched(reader.word(layout.PID), reader.word(layout.START_TIME))
        self.ranks[rank] = Rank(reader, process, self._kills)

    def marks(self) -> dict[int, tuple[int, ...]]:
        """Return what changes whenever a rank does anything."""
        return {rank: (*held.reader.mark(), held.process.has_ended()) for rank, held in self.ranks.items()}

    def processes(self) -> list[Watched]:
        """Return the ranks' processes."""
        return [held.process for held in self.ranks.values()]

    def lost_ranks(self) -> list[int]:
        """Return the ranks of which not everything could be recorded."""
        return sorted(rank for rank, held in self.ranks.items() if held.reader.word(layout.LOST))

    def any_is_ending(self) -> bool:
        """Say whether some rank has ended or is about to."""
        return any(
            held.process.has_ended() or held.reader.word(layout.ENDING) != layout.LIVES for held in self.ranks.values()
        )

    def has_ended(self) -> bool:
        """Say whether every rank that was seen has gone."""
        return all(held.process.has_ended() for held in self.ranks.values())

    def ends(self) -> dict[int, End]:
        """Return how ranks have ended."""
        ends = {}
        for rank, held in self.ranks.items():
            held.reader.read_texts()
            end = self.end(rank)
            if end is not None:
                ends[rank] = end
        return ends

    def snapshot(self, *, history: int) -> Snapshot:
        """Return what is known now, with so many calls of the past."""
        communicators: dict[str, Membership] = {}
        carriers: dict[str, dict[int, int]] = {"mpi": {}, "torch": {}}
        for rank, held in self.ranks.items():
            held.reader.read_texts()
            for carrier, word in (("mpi", layout.MPI_RANK), ("torch", layout.TORCH_RANK)):
                if held.reader.word(word):
                    carriers[carrier][held.reader.word(word) - 1] = rank
        for held in self.ranks.values():
            for known in held.reader.communicators.values():
                if known.identity not in communicators:
                    communicators[known.identity] = Membership(name=known.name, ranks=known.members(carriers))
        states: list[RankState | None] = [None] * self.world_size
        for rank, held in self.ranks.items():
            states[rank] = self._state(rank, held, history)
        new_groups = {
            int(text["group"]): tuple(text["ranks"])
            for held in self.ranks.values()
            for text in held.reader.texts
            if "group" in text
        }
        return Snapshot(ranks=states, communicators=communicators, new_groups=new_groups)

    def _state(self, rank: int, held: Rank, history: int) -> RankState:
        reader = held.reader
        reader.read_texts()
        threads = reader.threads()  # before the messages: one that is sent now must not be missed by one who waits now
        sent, received = reader.channels()
        lost = reader.word(layout.LOST)
        end = self.end(rank)
        return RankState(
            rank=rank,
            end=end,
            threads=threads,
            positions=reader.positions(),
            freed=reader.freed(),
            sent=sent,
            received=received,
            posted=reader.posted() if sent or received or threads else (),
            messages_known=not lost & _LOST_MESSAGES,
            threads_known=not lost & layout.LOST_THREADS,
            stop=reader.stop(),
            history=reader.history(history) if history else (),
        )

    def end(self, rank: int) -> End | None:
        """Return how a rank has ended or is ending; None while it lives."""
        held = self.ranks[rank]
        reader = held.reader
        ending, ended = reader.word(layout.ENDING), held.process.has_ended()
        if ending == layout.LIVES and not ended:
            return None
        at = reader.word(layout.ENDED_AT) or held.process.ended_ns
        raised = next((text["raised"] for text in reversed(reader.texts) if "raised" in text), None)
        if raised is not None:
            return _raised(reader, raised, at)
        if ending == layout.ABORTS:
            text = _last(reader, "abort")
            return End(kind=EndKind.ABORTED, detail=f"Abort({text['abort']})", site=_first_site(reader, text), at_ns=at)
        if ending in (layout.EXITS, layout.EXITS_AT_ONCE):
            text = _last(reader, "exit")
            code = text.get("exit")
            detail = f"{text['how']}({code})" if text else "came to the end of the script"
            return End(kind=EndKind.EXITED, detail=detail, site=_first_site(reader, text), exit_code=code, at_ns=at)
        return self._killed(held, at)

    def _killed(self, held: Rank, at: int) -> End:
        status = held.process.status
        number = status & 0x7F if status is not None else None
        if number == 0 and status is not None:
            code = status >> 8
            return End(kind=EndKind.EXITED, detail=f"exit code {code}, not by way of Python", exit_code=code, at_ns=at)
        said = f"by {signal_name(number)}" if number else "by a signal, or by a library that ended the process"
        kills = out_of_memory_kills() - held.kills_before
        if number == 9 and kills > 0:
            said += f"; the kernel has killed {kills} process(es) for memory since the job began"
            return End(kind=EndKind.KILLED, detail=said, cause=Cause.OUT_OF_MEMORY, signal=number, at_ns=at)
        return End(kind=EndKind.KILLED, detail=f"{said}{self._memory_text(held)}", signal=number, at_ns=at)

    def _memory_text(self, held: Rank) -> str:
        if len(held.memory) < 2:
            return ""
        (first, low), (last, high) = held.memory[0], held.memory[-1]
        if high < 2 * low or high < 1 << 28:
            return ""
        return f"; its memory had grown from {low >> 20} to {high >> 20} MiB in {last - first:.0f} s"

    def note_memory(self) -> None:
        """Remember how much memory each rank holds, for the case that one is killed."""
        now = time.monotonic()
        for held in self.ranks.values():
            if held.memory and now - held.memory[-1][0] < _MEMORY_SECONDS:
                continue
            found = None if held.process.ended_ns else activity(held.process.pid)
            if found is not None and found.rss_bytes:
                held.memory = [*held.memory[-19:], (now, found.rss_bytes)]


def _last(reader: RingReader, key: str) -> dict[str, Any]:
    return next((text for text in reversed(reader.texts) if key in text), {})


def _first_site(reader: RingReader, text: Mapping[str, Any]) -> str:
    frames = text.get("frames") or []
    return reader.frames_text(frames[:1])[0] if frames else ""


def _raised(reader: RingReader, raised: Mapping[str, Any], at: int) -> End:
    kind, message = raised["type"], str(raised["message"])
    words = " ".join(message.split())
    first_line = words if len(words) <= _MAX_MESSAGE else f"{words[:_MAX_MESSAGE]}..."
    is_full = raised.get("errno") in _NO_SPACE or "No space left on device" in message
    cause = Cause.DISK_FULL if is_full else None
    if kind in ("MemoryError", "OutOfMemoryError"):
        cause = Cause.OUT_OF_MEMORY
    return End(
        kind=EndKind.RAISED,
        detail=f"{kind}: {first_line}" if first_line else str(kind),
        site=_first_site(reader, raised),
        cause=cause,
        at_ns=at,
        failed_call=raised.get("call"),
        by_peer=any(text in message.lower() for text in _BY_PEER),
    )


def _allow_many_files() -> None:
    """Let us hold two files for each rank; the usual limit is that of a machine with few."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class SharedMemory:
    """The records of ranks on this machine."""

    def __init__(self, folder: Path) -> None:
        _allow_many_files()
        self._folder = folder
        self._worlds: dict[str, World] = {}
        self._seen: set[str] = set()
        self._unfinished: dict[str, RingReader] = {}

    def worlds(self) -> list[World]:
        """Return the jobs that are known now."""
        for name in os.listdir(self._folder):
            if name.startswith("ring.") and name not in self._seen:
                self._take(name)
        return list(self._worlds.values())

    def _take(self, name: str) -> None:
        path = self._folder / name
        if path.stat().st_size < layout.RING_BYTES:
            return
        reader = self._unfinished.pop(name, None) or RingReader(path)
        if not reader.is_complete:
            self._unfinished[name] = reader
            return
        self._seen.add(name)
        world_name, _, rank = name.removeprefix("ring.").rpartition(".")
        world = self._worlds.setdefault(world_name, World(world_name, reader.word(layout.WORLD_SIZE)))
        world.add(int(rank), reader)

    def problems(self) -> list[str]:
        """Return what ranks said that could not be watched."""
        return sorted(
            {(self._folder / name).read_text() for name in os.listdir(self._folder) if name.startswith("problem.")}
        )

    def wait(self, seconds: float) -> None:
        """Wait so long, or until a rank has ended."""
        ends = select.poll()
        for world in self._worlds.values():
            for process in world.processes():
                if process.descriptor is not None:
                    ends.register(process.descriptor, select.POLLIN)
        ends.poll(seconds * 1000)

    def close(self) -> None:
        """Let go of everything."""
        for world in self._worlds.values():
            for held in world.ranks.values():
                held.reader.close()
                held.process.close()
