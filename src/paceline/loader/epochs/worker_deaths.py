"""A worker's death is learnt where its batch is taken, not in the middle of whatever the job does at that moment.

torch raises it from a signal handler: in the job's own collective, it would leave the other ranks there.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

_T = TypeVar("_T")


class _Deaths:
    """What torch's handler has raised, until somebody takes a batch."""

    def __init__(self) -> None:
        self._num_passes = 0
        self._is_taking = False
        self._pending: RuntimeError | None = None
        self._inner: Callable[[int, FrameType | None], Any] | None = None

    @contextmanager
    def held_back(self) -> Iterator[None]:
        """Hold deaths back within; to be entered when torch has installed its handler."""
        if threading.current_thread() is threading.main_thread():  # only there signals are handled
            handler = signal.getsignal(signal.SIGCHLD)
            if callable(handler) and handler != self._handle:
                self._inner = handler
                signal.signal(signal.SIGCHLD, self._handle)
        self._num_passes += 1
        try:
            yield
        finally:
            self._num_passes -= 1
            self._pending = None

    def take(self, source: Iterator[_T]) -> _T | None:
        """Return the next of a source, or None at its end; raise what was held back."""
        if self._pending is not None:
            raise self._pending
        self._is_taking = True
        try:
            return next(source, None)
        finally:
            self._is_taking = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        assert self._inner is not None
        try:
            self._inner(number, frame)
        except RuntimeError as error:
            if self._num_passes == 0 or self._is_taking:
                raise
            self._pending = error


DEATHS = _Deaths()
