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
def drop_unread_output() -> Iterator[None]:
    """Drop what is written to standard output once its reader has left."""
    before = sys.stdout
    sys.stdout = cast(TextIO, _UnreadStream(before))
    try:
        yield
    finally:
        sys.stdout.flush()  # or Python does it at its end, and exits with a code of its own
        sys.stdout = before


def drop_stream(stream: TextIO) -> None:
    """Let everything that was and will be written to a stream go nowhere."""
    with suppress(OSError, ValueError):  # a stream without a descriptor, as in tests
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


class _UnreadStream:
    """A stream that is as the other one until its reader leaves."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except BrokenPipeError:
            drop_stream(self._stream)
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except BrokenPipeError:
            drop_stream(self._stream)
