"""The folder through which a launcher and its ranks talk: small files, each written aside and then renamed.

The folder is private to the user and is gone when the job is.
"""

from __future__ import annotations

import os
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any


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
    def end(self) -> Path:
        """Once it is there, ranks that wait after a failure may go."""
        return self.path / "end"

    def of_rank(self, rank: int, kind: str) -> Path:
        """Return a file of one rank: `pid`, `result`, `status`, `stacks` or `output`."""
        return self.path / f"{kind}.{rank}"


def write_whole(path: Path, content: bytes) -> None:
    """Write a file that is either whole or not there."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    aside.write_bytes(content)
    aside.rename(path)


def read_pickle(path: Path) -> Any:
    """Read what a rank of ours has written; the folder is private, so nobody else can have."""
    return pickle.loads(path.read_bytes())
