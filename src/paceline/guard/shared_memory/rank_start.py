"""What a process that a launcher started as a rank says of itself before it joins a job.

A rank that fails while it imports has no ring, and the others wait for it in MPI_Init or init_process_group. So each
leaves a note at its start, and adds what becomes of it.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from paceline.errors import InputError
from paceline.guard.shared_memory.layout import START_PREFIX
from paceline.process.launchers import launched_rank
from paceline.process.private_files import write_private
from paceline.process.procfs import start_time

RANK_PROCESS = "PACELINE_RANK_PROCESS"  # the process that is the rank: what it starts inherits its variables


class RankStart:
    """The note of this process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.has_raised = False

    @classmethod
    def of_this_process(cls, folder: Path) -> RankStart | None:
        """Leave a note, if this process is a rank by its environment and not by that of the rank that started it."""
        try:
            place = launched_rank(os.environ)
        except InputError:
            return None  # what a launcher is said to have set does not name a rank
        if place is None or place.world_size is None or place.world_size < 2 or place.rank >= place.world_size:
            return None
        who = f"{place.launcher.name} {place.rank} of {place.world_size}"
        pid, _, inherited = os.environ.get(RANK_PROCESS, "").partition(" ")
        if inherited == who and pid != str(os.getpid()):
            return None
        os.environ[RANK_PROCESS] = f"{os.getpid()} {who}"
        note = cls(folder / f"{START_PREFIX}{os.getpid()}")
        began = start_time(os.getpid())
        note.tell(
            {
                "rank": place.rank, "size": place.world_size, "launcher": place.launcher.name, "job": place.job,
                "has_mpi": place.launcher.is_mpi, "local": place.local_size, "pid": os.getpid(), "began": began,
                "folder": _working_folder(), "is_python": is_python(),
            }
        )  # fmt: skip
        return note

    @contextlib.contextmanager
    def initialising(self, frames: Sequence[tuple[str, int, str]]) -> Iterator[None]:
        """Note from where this process initialises MPI, as long as it does: it waits there for all other ranks."""
        self.tell({"init": frames})
        try:
            yield
        finally:
            self.tell({"init": None})

    def tell(self, value: dict[str, Any]) -> None:
        """Add a line. It never raises: the script goes on, or ends, as it would without it."""
        with contextlib.suppress(OSError, ValueError):
            write_private(self._path, f"{json.dumps(value)}\n".encode(errors="replace"), append=True)


def is_python() -> bool:
    """Say whether this program is Python, and not one that uses Python for a while."""
    try:
        return os.path.realpath("/proc/self/exe") == os.path.realpath(getattr(sys, "_base_executable", ""))
    except OSError:
        return False


def _working_folder() -> str:
    try:
        return os.getcwd()
    except OSError:  # somebody has removed it
        return ""
