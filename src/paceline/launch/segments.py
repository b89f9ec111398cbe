"""Shared-memory files that an MPI leaves in /dev/shm when its ranks are killed."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_FOLDER = Path("/dev/shm")
_PREFIXES = ("mpich_", "sm_segment", "vader_segment", "ompi", "pmix", "osc_rdma", "ucx_shm_posix_")


def segments_now() -> set[str]:
    """Return the names of this user's MPI segments that are there now."""
    return {path.name for path in _FOLDER.glob("*") if path.name.startswith(_PREFIXES) and _is_mine(path)}


def remove_left_segments(before: set[str]) -> None:
    """Remove segments that came since, unless some process still has one open or mapped: then it is another job's."""
    left = segments_now() - before
    if left:
        for name in left - _opened() - _mapped():  # in this order: a file is opened, mapped, and closed
            with suppress(FileNotFoundError):
                (_FOLDER / name).unlink()


def _opened() -> set[str]:
    names = set()
    for folder in Path("/proc").glob("[0-9]*/fd"):
        with suppress(OSError):  # the process has ended, or is another user's
            for descriptor in os.listdir(folder):
                with suppress(FileNotFoundError):  # it was closed
                    folder_of_file, _, name = os.readlink(folder / descriptor).rpartition("/")
                    if folder_of_file == str(_FOLDER):
                        names.add(name.removesuffix(" (deleted)"))
    return names


def _mapped() -> set[str]:
    names = set()
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with suppress(OSError):  # the process has ended, or is another user's
            names |= {
                line.rpartition("/")[2].removesuffix(" (deleted)")
                for line in maps.read_text(errors="replace").splitlines()
                if f"{_FOLDER}/" in line
            }
    return names


def _is_mine(path: Path) -> bool:
    try:
        return path.stat().st_uid == os.getuid()
    except FileNotFoundError:
        return False
