"""One rank as the judge holds it: its ring, its process, and how much memory it has had."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from paceline.guard.observe.kernel_view import ProcessHandle, activity
from paceline.guard.observe.ring_reader import RingReader

_MEMORY_SECONDS = 0.5  # between two notes of a rank's memory
_MEMORY_NOTES = 20  # the last ones are kept
_MUCH_MEMORY = 1 << 28  # bytes below which growth is not worth a word


@dataclass(slots=True)
class WatchedRank:
    """One rank: its ring and its process."""

    reader: RingReader
    process: ProcessHandle
    kills_before: int  # processes that the kernel had killed for memory when the job was first seen
    memory: list[tuple[float, int]] = field(default_factory=list)  # (when, bytes), the last few

    def note_memory(self) -> None:
        """Remember how much memory the rank holds, if the last note is old enough."""
        now = time.monotonic()
        if self.memory and now - self.memory[-1][0] < _MEMORY_SECONDS:
            return
        doing = None if self.process.ended_ns else activity(self.process.pid)
        if doing is not None and doing.rss_bytes:
            self.memory = [*self.memory[1 - _MEMORY_NOTES :], (now, doing.rss_bytes)]

    def memory_growth(self) -> str:
        """Say how the rank's memory had grown, if it had at least doubled; otherwise nothing."""
        if len(self.memory) < 2:
            return ""
        (first, low), (last, high) = self.memory[0], self.memory[-1]
        if high < 2 * low or high < _MUCH_MEMORY:
            return ""
        return f"; its memory had grown from {low >> 20} to {high >> 20} MiB in {last - first:.0f} s"
