"""A pipe that a rank holds open for as long as it lives; the judge sees when it is closed.

A launcher that loses the connection to a rank kills all others. On a busy machine the kernel may list their ends before
that of the first one, which has closed its connection and does not get a processor to finish. Linux releases the files
of a process that ends from the highest number to the lowest. So a pipe with a high number is closed before anybody can
react to the end of its rank: pipes are closed in the order in which ranks were killed.
"""

from __future__ import annotations

import fcntl
import os
import resource
import stat
from contextlib import suppress
from pathlib import Path

_PREFIX = "lifeline."
_USUAL_LIMIT = 1024
_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW


class Lifeline:
    """The pipe of this process.

    Args:
        descriptor: It, as it was opened.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._file = descriptor, _file_of(descriptor)

    def let_go(self) -> None:
        """Close the pipe in a copy of the process, unless the script has closed it and uses its number."""
        with suppress(OSError):
            if _file_of(self._descriptor) == self._file:
                os.close(self._descriptor)


def hold_lifeline(folder: Path) -> Lifeline | None:
    """Hold a pipe from now on; return it, or None if there is no room."""
    path = folder / f"{_PREFIX}{os.getpid()}"
    with suppress(OSError):
        with suppress(FileExistsError):  # of this process, before it became another program
            os.mkfifo(path, 0o600)
        descriptor = os.open(path, os.O_RDWR | _FLAGS)
        try:
            return Lifeline(fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _high_number()))
        finally:
            os.close(descriptor)
    return None


def _high_number() -> int:
    """Return a number that few programs come to, below the limit; not a very high one, for which a table must grow."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return min(soft if soft != resource.RLIM_INFINITY else _USUAL_LIMIT, _USUAL_LIMIT) - 1


def _file_of(descriptor: int) -> tuple[int, int]:
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino


def open_lifeline(folder: Path, pid: int) -> int | None:
    """Open the pipe of a process to see when it is closed there; None if it has none."""
    try:
        descriptor = os.open(folder / f"{_PREFIX}{pid}", os.O_RDONLY | _FLAGS)
    except OSError:
        return None
    found = os.fstat(descriptor)
    if stat.S_ISFIFO(found.st_mode) and found.st_uid == os.geteuid():
        return descriptor
    os.close(descriptor)
    return None
