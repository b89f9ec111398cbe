r"""A few lines at the bottom of a terminal that others write to.

These lines are taken out of the terminal's scrolling region, as apt does. Whatever the ranks print scrolls above them,
straight from the ranks to the terminal, with its own colours, prompts and progress bars. Each picture is one write,
which the terminal's driver does not mix with others, and leaves cursor and colours as they were.
"""

from __future__ import annotations

import os
import select
from collections.abc import Mapping, Sequence

_SAVE, _RESTORE = "\x1b7", "\x1b8"
_WHOLE_REGION, _DOWN, _CLEAR_BELOW = "\x1b[r", "\x1bD", "\x1b[J"
MIN_COLUMNS, MIN_ROWS = 60, 12


def is_usable(descriptor: int, environ: Mapping[str, str]) -> bool:
    """Return whether this is a terminal that can keep lines at the bottom and is large enough."""
    if not os.isatty(descriptor) or environ.get("TERM", "") in ("", "dumb", "unknown"):
        return False
    return is_large_enough(os.get_terminal_size(descriptor))


def is_large_enough(size: os.terminal_size) -> bool:
    """Return whether there is room for the lines and for what the ranks print."""
    return size.columns >= MIN_COLUMNS and size.lines >= MIN_ROWS


class Screen:
    """Lines at the bottom of the terminal behind a descriptor."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._size = os.get_terminal_size(descriptor)
        self._height = 0  # lines that are taken now

    @property
    def columns(self) -> int:
        """The width of the terminal now."""
        return os.get_terminal_size(self._descriptor).columns

    @property
    def room(self) -> int:
        """How many lines may be taken: never more than half of the terminal; 0 if it has become too small."""
        size = os.get_terminal_size(self._descriptor)
        return size.lines // 2 if is_large_enough(size) else 0

    def show(self, lines: Sequence[str]) -> None:
        """Show these lines, none wider than the terminal; skipped while output is stopped, as by Ctrl-S."""
        if not self._is_writable():
            return
        size = os.get_terminal_size(self._descriptor)
        text = ""
        if size != self._size:
            text += self._after_resize(size)
        if len(lines) != self._height:
            text += self._give_back() + self._take(len(lines))
        first = size.lines - self._height + 1
        text += _SAVE
        for number, line in enumerate(lines):
            text += f"\x1b[{first + number};1H\x1b[0m\x1b[2K{line}"
        self._write(f"{text}\x1b[0m{_RESTORE}")

    def hide(self) -> None:
        """Give the lines back to the terminal."""
        text = self._after_resize(size) if (size := os.get_terminal_size(self._descriptor)) != self._size else ""
        text += self._give_back()
        if text:
            self._write(text)

    def _after_resize(self, size: os.terminal_size) -> str:
        """Forget where the lines were: the terminal has moved them. Everything below the cursor is ours."""
        self._size = size
        if self._height == 0:
            return ""
        self._height = 0
        return f"{_SAVE}{_WHOLE_REGION}{_RESTORE}{_CLEAR_BELOW}"

    def _take(self, height: int) -> str:
        self._height = height
        if height == 0:
            return ""
        # go down so far that there is room, which scrolls if need be, and up again; the column stays
        room = f"{_DOWN * height}\x1b[{height}A"
        return f"{room}{_SAVE}\x1b[1;{self._size.lines - height}r{_RESTORE}"

    def _give_back(self) -> str:
        if self._height == 0:
            return ""
        first = self._size.lines - self._height + 1
        self._height = 0
        return f"{_SAVE}{_WHOLE_REGION}\x1b[{first};1H\x1b[0m{_CLEAR_BELOW}{_RESTORE}"

    def _is_writable(self) -> bool:
        ready = select.poll()
        ready.register(self._descriptor, select.POLLOUT)
        return bool(ready.poll(0))

    def _write(self, text: str) -> None:
        data = text.encode(errors="replace")
        while data:
            data = data[os.write(self._descriptor, data) :]
