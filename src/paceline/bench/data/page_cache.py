"""The page cache: drops some files from it, and says how large it can be."""

from __future__ import annotations

import os
from pathlib import Path

from paceline.bench.data.files import Files
from paceline.bench.data.store import Store


def drop_files(files: Files, store: Store, rank: int, world_size: int) -> None:
    """Ask the kernel to forget this rank's share of the files. What is not on the disk yet is written there first."""
    if not store.is_local:
        return
    for file in range(rank, files.num_files, world_size):
        drop_file(store.local_path(files.path(file)))


def drop_file(path: str) -> None:
    """Ask the kernel to forget one file; if it is missing, its reader will say so."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        os.fdatasync(handle)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(handle)


def memory_bytes() -> int:
    """Return the memory of this host; a container's limit, if that is less."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
    except OSError:
        return whole
    return min(whole, int(limit)) if limit.isdecimal() else whole
