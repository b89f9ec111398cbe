"""The death of a worker is raised where its batch is taken, not in the middle of whatever the job does at that moment.

torch raises it from a signal handler: raised in a collective of the job, it would leave the other ranks waiting there.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

_T = TypeVar("_T")


class WorkerDeaths:
    """What torch's handler has raised, until a batch is taken."""

    def __init__(self) -> None:
        self._num_passes = 0
        self._is_taking = False
        self._pending: RuntimeError | None = None
        self._inner: Callable[[int, FrameType | None], Any] | None = None

    @contextmanager
    def held_back(self) -> Iterator[None]:
        """Hold deaths back while this is entered; torch must have installed its handler before."""
        if threading.current_thread() is threading.main_thread():  # signals are handled only there
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

    def take(self, batches: Iterator[_T]) -> _T | None:
        """Return the next item of an iterator, or None at its end; raise what was held back."""
        if self._pending is not None:
            raise self._pending
        self._is_taking = True
        try:
            return next(batches, None)
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


DEATHS = WorkerDeaths()
