"""A real terminal for a program under test: a pty, and what its screen shows."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyte

_DEADLINE = 60.0


class Terminal:
    """Runs a command in the foreground of a terminal of its own, and keeps its screen."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: Path,
        columns: int = 100,
        rows: int = 30,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._master, slave = pty.openpty()
        self.screen = pyte.HistoryScreen(columns, rows, history=1000)
        self._stream = pyte.ByteStream(self.screen)
        self.written = b""
        self._resize(columns, rows)

        def take_terminal() -> None:
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
            signal.signal(signal.SIGINT, signal.SIG_DFL)

        self.process = subprocess.Popen(
            command, cwd=cwd, stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
            preexec_fn=take_terminal,  # noqa: PLW1509
            env={**os.environ, "TERM": "xterm-256color", **(env or {})},
        )  # fmt: skip
        os.close(slave)

    def _resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def resize(self, columns: int, rows: int) -> None:
        """Make the terminal larger or smaller, as xterm does: what is below the cursor goes first, then the top."""
        self._resize(columns, rows)
        screen = self.screen
        drop = max(0, screen.cursor.y + 1 - rows)
        kept = {y - drop: line for y, line in screen.buffer.items() if 0 <= y - drop < rows}
        screen.buffer.clear()
        screen.buffer.update(kept)
        screen.cursor.y -= drop
        screen.lines = rows  # pyte by itself would drop lines from the top and leave the cursor where it was
        screen.resize(rows, columns)
        screen.set_margins()

    def press(self, keys: bytes) -> None:
        """Press keys."""
        os.write(self._master, keys)

    def _read(self, seconds: float) -> bool:
        """Take in what was written; say whether more can come."""
        ready, _, _ = select.select([self._master], [], [], seconds)
        if not ready:
            return True
        try:
            data = os.read(self._master, 65536)
        except OSError:
            return False
        self.written += data
        self._stream.feed(data)
        return bool(data)

    @property
    def lines(self) -> list[str]:
        """What the screen shows now."""
        return [line.rstrip() for line in self.screen.display]

    @property
    def everything(self) -> str:
        """What has scrolled away, and what the screen shows."""
        past = ["".join(line[column].data for column in sorted(line)).rstrip() for line in self.screen.history.top]
        return "\n".join([*past, *self.lines])

    def wait_for(self, wanted: str | Callable[[list[str]], bool]) -> list[str]:
        """Read until the screen shows it."""
        deadline = time.monotonic() + _DEADLINE
        shown = wanted if callable(wanted) else (lambda lines: re.search(wanted, "\n".join(lines)) is not None)
        goes_on = True
        while time.monotonic() < deadline:
            if shown(self.lines):
                return self.lines
            if not goes_on:
                break
            goes_on = self._read(0.1)
        raise AssertionError(f"the screen never showed {wanted!r}:\n" + "\n".join(self.lines))

    def finish(self) -> int:
        """Read to the end; return the exit code."""
        deadline = time.monotonic() + _DEADLINE
        while self._read(0.1) and time.monotonic() < deadline:
            if self.process.poll() is not None and not select.select([self._master], [], [], 0)[0]:
                break
        return self.process.wait(timeout=_DEADLINE)

    def close(self) -> None:
        """End the program, if it still runs, as closing the window would, and the terminal."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        os.close(self._master)
