"""Shared-memory files that an MPI leaves in /dev/shm when its ranks are killed."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_FOLDER = Path("/dev/shm")
_PREFIXES = ("mpich_", "sm_segment", "vader_segment", "ompi", "pmix", "osc_rdma")


def segments_now() -> set[str]:
    """Return the names of this user's MPI segments that are there now."""
    return {path.name for path in _FOLDER.glob("*") if path.name.startswith(_PREFIXES) and _is_mine(path)}


def remove_left_segments(before: set[str]) -> None:
    """Remove segments that came since, unless some process still has one mapped: then it is another job's."""
    left = segments_now() - before
    if left:
        for name in left - _mapped():
            with suppress(FileNotFoundError):
                (_FOLDER / name).unlink()


def _mapped() -> set[str]:
    names = set()
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with suppress(OSError):  # the process has ended, or is another user's
            names |= {
                line.rpartition("/")[2].removesuffix(" (deleted)")
                for line in maps.read_text().splitlines()
                if "/dev/shm/" in line
            }
    return names


def _is_mine(path: Path) -> bool:
    try:
        return path.stat().st_uid == os.getuid()
    except FileNotFoundError:
        return False
