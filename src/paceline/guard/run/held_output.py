"""The last output of ranks that ended with an exception: shown at once, or held back where another rank is the reason.

What is held back is folded into one line after a finding. Without a finding all of it is shown.
"""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from paceline.guard.observe.rank_ends import raised_end
from paceline.guard.observe.watched_job import WatchedJob
from paceline.guard.shared_memory.last_output import KEPT_OUTPUT_BYTES, LAST_OUTPUT
from paceline.guard.verdict.finding import Finding
from paceline.guard.verdict.order_of_ends import is_raised_by_others
from paceline.guard.verdict.snapshot import End
from paceline.process.private_files import names_in, open_private

_LOOK_SECONDS = 0.1  # between two looks for new output
_HOLD_SECONDS = 30.0  # nobody waits longer for the output of a rank in a job that goes on
_MOST_BYTES = 1 << 22  # that are read at a time
_MOST_HELD = 1 << 22  # bytes of one rank that are held back; more is shown
_MOST_BEHIND = 1 << 26  # bytes of one rank that wait to be shown; beyond that a part is left out


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedAfterwards:
    """A rank that ended because of others, and whose last output is in the records."""

    rank: int
    detail: str  # how it ended


@dataclass(slots=True)
class _Held:
    """The last output of one process."""

    path: Path
    since: float
    num_shown: int = 0
    num_freed: int = KEPT_OUTPUT_BYTES  # up to here nothing is left to free
    is_shown: bool = False

    def size(self) -> int:
        """Return how much the process has written; 0 if somebody has removed it."""
        try:
            return self.path.stat().st_size
        except OSError:
            return 0


class HeldOutput:
    """The last outputs of a run."""

    def __init__(self, folder: Path, show: Callable[[bytes], None] | None) -> None:
        self._folder, self._show = folder, show
        self._held: dict[int, _Held] = {}  # by process id, the oldest first
        self._next = 0.0

    def look(self, jobs: Sequence[WatchedJob]) -> None:
        """Show the output of ranks that failed by themselves, and what has been held for too long."""
        now = time.monotonic()
        if self._show is None or now < self._next:
            return
        self._next = now + _LOOK_SECONDS
        self._find(now)
        if self._held:
            ends = _raised_ends(jobs)
            for pid, held in self._held.items():
                end = ends.get(pid)
                is_own = end is None or not is_raised_by_others(end[1])
                is_too_much = now > held.since + _HOLD_SECONDS or held.size() > _MOST_HELD
                held.is_shown = held.is_shown or is_own or is_too_much
            self._show_new()

    def settle(self, finding: Finding | None, jobs: Sequence[WatchedJob]) -> tuple[EndedAfterwards, ...]:
        """After the job has ended: show what is left, except of ranks that ended because of others; return those."""
        if self._show is None:
            return ()
        self._find(time.monotonic())
        ends, folded = _raised_ends(jobs), []
        for pid, held in self._held.items():
            rank, end = ends.get(pid, (None, None))
            is_kept = finding is not None and not held.is_shown and rank not in finding.ranks
            if is_kept and rank is not None and end is not None and is_raised_by_others(end):
                folded.append(EndedAfterwards(rank=rank, detail=end.detail))
            else:
                held.is_shown = True
        self._show_new()
        return tuple(sorted(folded, key=lambda one: one.rank))

    def show_all(self) -> None:
        """Show also what was folded: there is no other place where it can be found."""
        if self._show is not None:
            self._find(time.monotonic())
            for held in self._held.values():
                held.is_shown = True
            self._show_new()

    def _find(self, now: float) -> None:
        found = [name for name in names_in(self._folder) if name.startswith(LAST_OUTPUT)]
        for name in sorted(found, key=lambda name: _made_at(self._folder / name)):
            self._held.setdefault(int(name.removeprefix(LAST_OUTPUT)), _Held(path=self._folder / name, since=now))

    def _show_new(self) -> None:
        """Write what has come since the last look, one process after the other."""
        for held in self._held.values():
            if held.is_shown:
                self._show_one(held)

    def _show_one(self, held: _Held) -> None:
        """Write what one process has written so far, and no more: it may write as fast as we do."""
        assert self._show is not None
        end = held.size()
        if end - held.num_shown > _MOST_BEHIND:
            left_out = end - held.num_shown - _MOST_BYTES
            self._show(f"\npaceline: {left_out >> 20} MiB that a rank printed on its way out are left out\n".encode())
            held.num_shown += left_out
        while held.num_shown < end and (new := _read_from(held.path, held.num_shown)):
            held.num_shown += len(new)
            self._show(new)
        held.num_freed = _free(held.path, held.num_freed, held.num_shown)


def _made_at(path: Path) -> int:
    try:
        return path.stat().st_ctime_ns
    except OSError:
        return 0


def _read_from(path: Path, start: int) -> bytes:
    try:
        with open(open_private(path), "rb") as file:
            file.seek(start)
            return file.read(_MOST_BYTES)
    except OSError:  # somebody has removed the folder of the run: there is nothing left to show
        return b""


def _free(path: Path, start: int, end: int) -> int:
    """Give back the memory of a part of a file, in whole pages, where the file system can; return where it ends."""
    end -= end % mmap.ALLOCATIONGRANULARITY
    if end <= start:
        return start
    # the file has gone, is shorter than it was, or its system cannot: it stays until the run ends
    with suppress(OSError, ValueError):
        descriptor = open_private(path, os.O_RDWR)
        try:
            with mmap.mmap(descriptor, end - start, offset=start) as part:
                part.madvise(mmap.MADV_REMOVE)
        finally:
            os.close(descriptor)
    return end


def _raised_ends(jobs: Sequence[WatchedJob]) -> Mapping[int, tuple[int, End]]:
    """Return rank and end of each process whose exception nobody caught, also of one that has not quite ended."""
    ends = {}
    for job in jobs:
        for rank, watched in job.ranks.items():
            watched.reader.read_texts()  # it may have raised after the judge's last look
            end = raised_end(watched)
            if end is not None:
                ends[watched.process.pid] = (job.rank_in_world(rank), end)
    return ends
