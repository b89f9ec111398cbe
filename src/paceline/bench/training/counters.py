"""What the kernel has counted for this process and its workers: bytes read, where from, and processor time."""

from __future__ import annotations

import os
import resource
from dataclasses import dataclass
from multiprocessing import active_children
from pathlib import Path


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
        counters = [_counters_of(pid) for pid in ("self", *(child.pid for child in active_children()))]
    except OSError:
        return None
    return Counters(sum(each.asked for each in counters), sum(each.from_device for each in counters))


def _counters_of(pid: str | int | None) -> Counters:
    lines = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
    return Counters(int(lines["rchar"]), int(lines["read_bytes"]))


def worker_seconds() -> float:
    """Return the processor time of this process's workers, of those that have exited too."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime + sum(_seconds_of(child.pid) for child in active_children())


def _seconds_of(pid: int | None) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # it has ended in between
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
