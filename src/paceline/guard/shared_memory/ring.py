"""The shared memory of one rank: its words, its bytes, and what is said once, as lines of JSON."""

from __future__ import annotations

import json
import mmap
import operator
import os
import threading
from pathlib import Path
from typing import Any

from paceline.guard.shared_memory import layout
from paceline.process.private_files import is_locked, open_private

JUDGE = "judge"  # the file whose lock the judge holds


class Ring:
    """A file of fixed size that this rank writes and the judge reads."""

    __slots__ = ("_text_end", "_text_lock", "bytes", "words")

    def __init__(self, path: Path) -> None:
        descriptor = open_private(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        try:
            os.posix_fallocate(descriptor, 0, layout.RING_BYTES)
            self.bytes = mmap.mmap(descriptor, layout.RING_BYTES)
        finally:
            os.close(descriptor)
        self.words = memoryview(self.bytes).cast("Q")
        self._text_lock = threading.Lock()
        self._text_end = 0

    def write_text(self, value: dict[str, Any], *, reserve: int = 0) -> bool:
        """Append one line of JSON; say whether it did fit, with so many bytes left for what matters more."""
        line = json.dumps(value, default=_plain).encode() + b"\n"
        with self._text_lock:
            begin = layout.TEXT_AT + self._text_end
            if self._text_end + len(line) > layout.TEXT_BYTES_MAX - reserve:
                return False
            self.bytes[begin : begin + len(line)] = line
            self._text_end += len(line)
            self.words[layout.TEXT_BYTES] = self._text_end
            return True

    def lose(self, bit: int) -> None:
        """Note that something did not fit, so that nobody concludes from its absence."""
        self.words[layout.LOST] |= bit


def _plain(value: Any) -> int | str:
    """Return what JSON has no word for as a whole number, if it is one (of numpy, for example), or as text."""
    try:
        return operator.index(value)
    except TypeError:
        return str(value)


def judge_lives(folder: Path) -> bool:
    """Say whether the judge of this run is still there to be waited for: it holds a lock as long as it lives."""
    return is_locked(folder / JUDGE)
