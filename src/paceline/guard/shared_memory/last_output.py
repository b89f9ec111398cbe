"""What a rank prints once nobody has caught its exception: it goes to a file, and the run decides what to show of it.

Ranks that lost their peers print tracebacks that hide the one that matters. Nothing else is touched: until then a rank
writes straight to its own streams, and one whose standard error is not that of the run keeps it to its end.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

from paceline.guard.shared_memory.ring import JUDGE
from paceline.process.private_files import is_locked, open_private, read_private, write_private

LAST_OUTPUT = "output."  # followed by the process id of the rank
KEPT_OUTPUT_BYTES = 1 << 20  # of the last output of a rank, which records have; the rest is given up once it is shown
_RUN_STDERR = "stderr"  # the file that says which file the standard error of the run is
_MAX_IDENTITY = 200
_ROOM = 1 << 16  # bytes: without them a traceback could be lost
_STDERR = 2


def allow_putting_aside(folder: Path) -> None:
    """Let ranks put their last output aside: somebody will show it."""
    identity = _stderr_identity()
    if identity is not None:
        with suppress(OSError):  # no room: ranks print as they would without us
            write_private(folder / _RUN_STDERR, identity)


def put_output_aside(folder: Path) -> bool:
    """Let everything that this process still writes to standard error go to a file of the run; say whether it does.

    It never raises: a rank that ends calls it.
    """
    try:
        if sys.flags.inspect or hasattr(sys, "ps1") or not _is_stderr_of_run(folder):
            return False
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        file = open_private(folder / f"{LAST_OUTPUT}{os.getpid()}", flags)
        try:
            os.posix_fallocate(file, 0, _ROOM)
            os.ftruncate(file, 0)
            for stream in (sys.stderr, sys.__stderr__):  # another's hook may have taken its place for now
                if stream is not None:
                    stream.flush()
            _keep_colours()
            os.dup2(file, _STDERR)
        finally:
            os.close(file)
    except Exception:  # no room, the folder has gone, or a stream of the script's own: its output stays where it was
        return False
    return True


def _keep_colours() -> None:
    """Let Python colour its traceback as it would on this terminal: it looks at the stream, which will be a file."""
    is_coloured = os.isatty(_STDERR) and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
    if sys.version_info >= (3, 13) and is_coloured:
        os.environ.setdefault("PYTHON_COLORS", "1")


def _is_stderr_of_run(folder: Path) -> bool:
    """Say whether what we print is what the run prints, and the run still lives to print it."""
    try:
        expected = read_private(folder / _RUN_STDERR, most=_MAX_IDENTITY)
    except OSError:  # the run does not ask for it
        return False
    return expected == _stderr_identity() and is_locked(folder / JUDGE)


def _stderr_identity() -> bytes | None:
    try:
        found = os.fstat(_STDERR)
    except OSError:  # it is closed
        return None
    return f"{found.st_dev} {found.st_ino} {found.st_rdev}".encode()
