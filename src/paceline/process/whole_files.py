"""Writes files that are either whole or not there: aside first, then renamed. A reader never sees a part."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any


@contextmanager
def open_whole(
    path: Path, *, aside: Path | None = None, to_disk: bool = False, buffering: int = -1
) -> Iterator[IO[Any]]:
    """Open a file for writing bytes that takes its place when the block ends; if it raises, what was there stays.

    A file that takes the place of another has its permissions. If the path is a link, it stays one, and what it leads
    to is replaced.

    Args:
        path: Where the file goes. Its folder must be there.
        aside: What it is called until then, in the same folder. By default a hidden name of its own, so that
            several may write the same file and the last one wins.
        to_disk: Whether it must have reached the disk before it takes its place, and the new name with it. Without it
            the file is whole for readers, but not after a power cut.
        buffering: As `open` has it.
    """
    path = Path(os.path.realpath(path)) if path.is_symlink() else path
    # with a random part: processes of two hosts that share the folder may have the same number
    aside = path.with_name(f".{path.name}.{os.urandom(6).hex()}") if aside is None else aside
    try:
        with open(aside, "wb", buffering=buffering) as file:
            _keep_mode(path, file.fileno())
            yield file
            if to_disk:
                file.flush()
                os.fsync(file.fileno())
        aside.replace(path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    if to_disk:
        _sync_folder(path.parent)


def _keep_mode(path: Path, descriptor: int) -> None:
    """Give an open file the permissions of the one it replaces, before anything is in it."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        return  # it replaces nothing: the umask decides
    os.fchmod(descriptor, mode)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file that is either whole or not there."""
    with open_whole(path) as file:
        file.write(content)


def _sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
