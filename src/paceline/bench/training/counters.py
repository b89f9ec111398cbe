"""What the kernel has counted for this process and its workers: bytes read, where from, and processor time."""

from __future__ import annotations

import os
import resource
from dataclasses import dataclass
from multiprocessing import active_children

from paceline.process.procfs import bytes_read, read_stat, ticks_to_seconds


@dataclass(frozen=True, slots=True)
class Counters:
    """Bytes that this process and its workers have read since they began: all of them, and those from a device."""

    asked: int
    from_device: int

    def since(self, before: Counters) -> Counters:
        """Return what was counted since then."""
        return Counters(self.asked - before.asked, self.from_device - before.from_device)


def read_counters() -> Counters | None:
    """Return the kernel's counters, or None if it does not give them. Workers that have ended are counted too."""
    try:
        counts = [bytes_read(pid) for pid in (os.getpid(), *_workers())]
    except OSError:
        return None
    return Counters(sum(asked for asked, _ in counts), sum(from_device for _, from_device in counts))


def worker_seconds() -> float:
    """Return the processor time of this process's workers, of those that have exited too."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime + sum(map(_seconds_of, _workers()))


def _workers() -> list[int]:
    return [child.pid for child in active_children() if child.pid is not None]


def _seconds_of(pid: int) -> float:
    try:
        return ticks_to_seconds(read_stat(pid).processor_ticks)
    except OSError:  # it has ended in between
        return 0.0
