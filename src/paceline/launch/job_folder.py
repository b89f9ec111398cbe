"""The folder through which a launcher and its ranks talk: small files, each written aside and then renamed.

The folder is private to the user and is gone when the job is.
"""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_END_SECONDS = 5.0  # how long a killed process may take to be gone
_POLL_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class JobFolder:
    """Names of the files of one job."""

    path: Path

    @property
    def call(self) -> Path:
        """What every rank is to run, pickled."""
        return self.path / "call"

    @property
    def meeting(self) -> Path:
        """Where torch's ranks find each other."""
        return self.path / "meeting"

    @property
    def segments(self) -> Path:
        """Names of an MPI's shared-memory files that were there before the job, one on a line."""
        return self.path / "segments"

    @property
    def end(self) -> Path:
        """Once it is there, ranks that wait after a failure may go."""
        return self.path / "end"

    def of_rank(self, rank: int, kind: str) -> Path:
        """Return a file of one rank: `pid`, `result`, `status`, `stacks` or `output`."""
        return self.path / f"{kind}.{rank}"

    def pids(self) -> dict[int, tuple[int, int]]:
        """Return the processes of all ranks that have said so: rank -> (worker, keeper)."""
        found = {}
        for path in self.path.glob("pid.*"):
            with suppress(FileNotFoundError):  # the job is over, and its folder goes
                worker, keeper = map(int, path.read_text().split())
                found[int(path.suffix[1:])] = worker, keeper
        return found


def wait_until_gone(pids: Iterable[int]) -> None:
    """Wait until processes that were told to end have, but not for long."""
    pids, end = list(pids), time.monotonic() + _END_SECONDS
    while any(is_alive(pid) for pid in pids) and time.monotonic() < end:
        time.sleep(_POLL_SECONDS)


def is_alive(pid: int) -> bool:
    """Say whether a process is there and has not ended."""
    try:
        return stat_fields(pid)[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def stat_fields(pid: int) -> list[str]:
    """Return what the kernel tells of a process after its name, which may be cut in the middle of a character."""
    return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()


def write_whole(path: Path, content: bytes) -> None:
    """Write a file that is either whole or not there."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    aside.write_bytes(content)
    aside.rename(path)


def read_pickle(path: Path) -> Any:
    """Read what a rank of ours has written; the folder is private, so nobody else can have."""
    return pickle.loads(path.read_bytes())
