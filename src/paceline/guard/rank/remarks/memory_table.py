"""A table of the memory that requests use: what shares a byte with some other memory is found by two searches."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Any


class MemoryTable:
    """Memory by where it begins; each has a number of its own. The extension module has a type that does the same."""

    def __init__(self) -> None:
        # There is no lock: each change is one step of the interpreter.
        self._entries: list[tuple[int, int, int, bool, Any]] = []  # begin, number, end, writes, memory
        self._longest = self._last_number = 0
        self.num_writing = 0  # entries of requests that write

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, memory: Any, begin: int, end: int, writes: bool) -> int:
        """Add memory; return its number."""
        self._last_number = number = self._last_number + 1
        self._longest = max(self._longest, end - begin)
        insort(self._entries, (begin, number, end, writes, memory))
        self.num_writing += writes
        return number

    def remove(self, memory: Any, begin: int, number: int) -> bool:
        """Take memory out that was added with this number; say whether it was there."""
        entries = self._entries
        at = bisect_left(entries, (begin, number))
        if at == len(entries) or entries[at][4] is not memory or entries[at][1] != number:
            return False
        self.num_writing -= entries[at][3]
        del entries[at]
        if not entries:
            self._longest = 0
        return True

    def overlapping(self, begin: int, end: int) -> list[Any]:
        """Return all memory that shares a byte with this, in order."""
        entries = self._entries
        first, last = bisect_left(entries, (begin - self._longest,)), bisect_left(entries, (end,))
        return [entry[4] for entry in entries[first:last] if entry[2] > begin]
