"""The folder through which a launcher and its ranks talk: small files, each written aside and then renamed.

The folder is private to the user and is gone when the job is.
"""

from __future__ import annotations

import pickle
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paceline.process.private_files import open_private


@dataclass(frozen=True, slots=True)
class JobFolder:
    """Names of the files of one job."""

    path: Path

    @property
    def call(self) -> Path:
        """What every rank is to run, pickled."""
        return self.path / "call"

    @property
    def rendezvous(self) -> Path:
        """Where torch's ranks find each other."""
        return self.path / "rendezvous"

    @property
    def shared_files(self) -> Path:
        """Paths of libraries' files that were there before the job, one on a line."""
        return self.path / "shared_files"

    @property
    def end(self) -> Path:
        """Once it is there, ranks that wait after a failure may go."""
        return self.path / "end"

    def of_rank(self, rank: int, kind: str) -> Path:
        """Return a file of one rank: `pid`, `result`, `status`, `stacks` or `output`."""
        return self.path / f"{kind}.{rank}"

    def pids(self) -> dict[int, tuple[int, int]]:
        """Return the processes of all ranks that have said so: rank -> (worker, keeper)."""
        pids = {}
        for path in self.path.glob("pid.*"):
            with suppress(FileNotFoundError):  # the job is over, and its folder goes
                worker, keeper = map(int, path.read_text().split())
                pids[int(path.suffix[1:])] = worker, keeper
        return pids


def read_pickle(path: Path) -> Any:
    """Read what a rank of ours has written; the folder is private, and the file ours, so nobody else can have."""
    with open(open_private(path), "rb") as file:
        return pickle.load(file)
