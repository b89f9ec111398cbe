"""Reads files that anybody may have written, because a user has named their folder: records, dumps, diagnoses.

A pipe does not hold us up, a device is not read, and a file has no more bytes than we are ready to take.
"""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

MOST_JSON_BYTES = 8 << 20  # what JSON is read into may take twenty times as much memory


def read_foreign(path: Path, *, most: int) -> bytes:
    """Return what is in a regular file. Raise OSError if it is something else, or has more than `most` bytes."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(0, "it is not a regular file", str(path))
        content = file.read(most + 1) if found.st_size <= most else None
    if content is None or len(content) > most:
        raise OSError(0, f"it has more than {most:,} bytes", str(path))
    return content


def read_json(path: Path, *, most: int = MOST_JSON_BYTES) -> Any:
    """Return what a file says as JSON. Raise OSError, or ValueError if it is not JSON."""
    try:
        return json.loads(read_foreign(path, most=most))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
