"""Which files in shared memory a run of the tests has left, while other jobs of the same user come and go.

A file that a living process of another job has open or mapped is that job's. The processes that tests start inherit a
variable by which they are told apart.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from paceline.process.procfs import environ_of

MEMORY = Path("/dev/shm")
_MARK = "PACELINE_TEST_RUN"
_PROC = Path("/proc")


def mark_own_processes() -> None:
    """Mark all processes that are started from now on as those of this run of the tests."""
    os.environ.setdefault(_MARK, f"{os.getpid()} {os.urandom(4).hex()}")


def files_now() -> set[str]:
    """Return the names of this user's files and folders in shared memory."""
    return {path.name for path in MEMORY.glob("*") if _owner(path) == os.getuid()}


def files_left(before: set[str]) -> set[str]:
    """Return the names of those that came since, except what belongs to other jobs that are running."""
    new = files_now() - before
    return new - _of_other_jobs() if new else new  # looking through all processes takes a while


def _of_other_jobs() -> set[str]:
    others = {int(path.name) for path in _PROC.glob("[0-9]*")} - {os.getpid()}
    others = {pid for pid in others if environ_of(pid).get(_MARK) != os.environ[_MARK]}
    return {name for pid in others for name in _used_by(pid)} | _judged_by(others)


def _used_by(pid: int) -> Iterator[str]:
    with suppress(OSError):  # the process has ended, or is another user's
        paths = [
            line.partition("/")[2] for line in (_PROC / str(pid) / "maps").read_text("utf-8", "replace").split("\n")
        ]
        for descriptor in (_PROC / str(pid) / "fd").iterdir():
            with suppress(FileNotFoundError):  # it was closed
                paths.append(os.readlink(descriptor)[1:])
        for path in paths:
            parts = path.removesuffix(" (deleted)").split("/")
            if parts[:2] == ["dev", "shm"] and len(parts) > 2:  # somebody may be listing the folder itself
                yield parts[2]


def _judged_by(pids: set[int]) -> set[str]:
    """Return the folders of watched runs: until the first rank comes, nobody has a file of theirs open."""
    names = set()
    for path in MEMORY.glob("*/judge"):
        with suppress(OSError, ValueError, IndexError):  # it has gone, or is not written yet
            if int(path.read_text().split()[0]) in pids:
                names.add(path.parent.name)
    return names


def _owner(path: Path) -> int | None:
    with suppress(FileNotFoundError):
        return path.stat().st_uid
    return None
