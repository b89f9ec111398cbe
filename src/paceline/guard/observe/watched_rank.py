"""One rank as the judge holds it: its ring, its process, and how much memory it has had."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from paceline.guard.observe.glances import Glance
from paceline.guard.observe.kernel_view import ProcessHandle
from paceline.guard.observe.ring_reader import RingReader

_LOOK_SECONDS = 0.1  # between two looks at a rank's memory: what it held last tells whom the kernel killed for memory
_MEMORY_SECONDS = 0.5  # between two notes that are kept
_MEMORY_NOTES = 20  # the last ones are kept
_MUCH_MEMORY = 1 << 28  # bytes below which growth is not worth a word


@dataclass(slots=True)
class WatchedRank:
    """One rank: its ring and its process."""

    reader: RingReader
    process: ProcessHandle
    kills_before: int  # processes that the kernel had killed for memory when the job was first seen
    memory: list[tuple[float, int]] = field(default_factory=list)  # (when, bytes), the last few
    glance: Glance | None = None  # of the moment at which all hosts were asked, while somebody looks

    def note_memory(self) -> None:
        """Remember how much memory the rank holds, if the last look is old enough."""
        now, notes = time.monotonic(), self.memory
        if notes and now - notes[-1][0] < _LOOK_SECONDS:
            return
        doing = None if self.process.ended_ns else self.process.activity()
        if doing is None or not doing.rss_bytes:
            return
        if len(notes) > 1 and notes[-1][0] - notes[-2][0] < _MEMORY_SECONDS:
            notes = notes[:-1]  # it was kept as the latest only
        self.memory = [*notes[1 - _MEMORY_NOTES :], (now, doing.rss_bytes)]

    def memory_growth(self) -> str:
        """Say how the rank's memory had grown, if it had at least doubled; otherwise nothing."""
        if len(self.memory) < 2:
            return ""
        (first, low), (last, high) = self.memory[0], self.memory[-1]
        if high < 2 * low or high < _MUCH_MEMORY:
            return ""
        return f"; its memory had grown from {low >> 20} to {high >> 20} MiB in {last - first:.0f} s"
