"""Stops the reads of a thread when the process ends, between one item and the next.

Workers of a DataLoader end at exit, and a thread that reads from one would be stopped amid torch's search for the
reason, with its temporary files.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_EXIT_SECONDS = 1.0  # what is being read at exit has this long


class ReadsUntilExit:
    """Lets reads begin until the process ends; what is being read then may finish."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._is_reading = self._is_stopped = False

    def watch_exit(self) -> None:
        """Stop reads at exit."""
        atexit.register(self._stop)

    def allow(self) -> None:
        """Let reads begin again after exit has stopped them: somebody waits for what is read."""
        with self._changed:
            self._is_stopped = False
            self._changed.notify_all()

    def end(self) -> None:
        """Let reads begin, also at exit."""
        atexit.unregister(self._stop)
        self.allow()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Read one item inside; waits here if reads are stopped."""
        with self._changed:
            self._changed.wait_for(lambda: not self._is_stopped)
            self._is_reading = True
        try:
            yield
        finally:
            with self._changed:
                self._is_reading = False
                self._changed.notify_all()

    def _stop(self) -> None:
        with self._changed:
            self._is_stopped = True
            self._changed.wait_for(lambda: not self._is_reading, timeout=_EXIT_SECONDS)
