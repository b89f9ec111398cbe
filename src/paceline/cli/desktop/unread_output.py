"""Output that nobody reads any more, as after `| head`, or that cannot be written: it is dropped, and the verb goes on.

Its exit code must not depend on who reads it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO, cast


@contextmanager
def drop_unread_output() -> Iterator[UnreadStream]:
    """Drop what is written to standard output once its reader has left, or its disk is full."""
    before, stream = sys.stdout, UnreadStream(sys.stdout)
    sys.stdout = cast(TextIO, stream)
    try:
        yield stream
    finally:
        sys.stdout.flush()  # or Python does it at its end, and exits with a code of its own
        sys.stdout = before


def drop_stream(stream: TextIO) -> None:
    """Let everything that was and will be written to a stream go nowhere."""
    with suppress(OSError, ValueError):  # a stream without a descriptor, as in tests
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


class UnreadStream:
    """A stream that is as the other one until its reader leaves or it cannot be written.

    Attributes:
        error: Why it could not be written; None if it could, or if only its reader has left.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.error: OSError | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write a text, or drop it."""
        try:
            return self._stream.write(text)
        except OSError as error:
            self._drop(error)
            return len(text)

    def flush(self) -> None:
        """Write what is held back, or drop it."""
        try:
            self._stream.flush()
        except OSError as error:
            self._drop(error)

    def _drop(self, error: OSError) -> None:
        if not isinstance(error, BrokenPipeError):
            self.error = error
        drop_stream(self._stream)
