"""Runs that are going on: what one says of itself in its folder, and how another process finds it and reads along.

Who reads along touches nothing. How the run ended is written to a file that is there from the begin: whoever holds it
open can still read it when the folder has gone.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from paceline.process.procfs import start_time
from paceline.process.whole_files import write_whole

PREFIX = "paceline-run-"
MEMORY = Path("/dev/shm")
_ABOUT, _OUTCOME = "about.json", "outcome.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run that is going on."""

    folder: Path  # where its rings are
    pid: int  # of the judge
    command: tuple[str, ...]
    cwd: Path
    out: Path | None  # the folder of records that was asked for
    began: float  # seconds since 1970


def describe_run(folder: Path, command: Sequence[str], out: Path | None) -> None:
    """Say in the folder of a run what it is, so that others find it."""
    pid = os.getpid()
    about = {
        "version": 1, "pid": pid, "start_time": start_time(pid), "command": list(command), "cwd": os.getcwd(),
        "out": str(out.absolute()) if out is not None else None, "began": time.time(),
    }  # fmt: skip
    (folder / _OUTCOME).touch(mode=0o600)
    write_whole(folder / _ABOUT, json.dumps(about).encode())


def write_outcome(folder: Path, outcome: dict[str, Any]) -> None:
    """Write how the run ended, into the file that readers hold open."""
    with suppress(FileNotFoundError), (folder / _OUTCOME).open("r+") as file:
        file.truncate()
        file.write(json.dumps(outcome))


def open_outcome(run: Run) -> IO[str]:
    """Open the file into which the run will write how it ended."""
    return (run.folder / _OUTCOME).open()


def read_outcome(file: IO[str]) -> dict[str, Any] | None:
    """Return how the run ended; None if it did not say, for example because it was killed."""
    file.seek(0)
    with suppress(ValueError):
        found = json.load(file)
        return found if isinstance(found, dict) else None
    return None


def is_going(run: Run) -> bool:
    """Say whether the judge of a run still lives."""
    found = _read(run.folder)
    return found is not None and found.pid == run.pid


def find_runs(place: Path | None = None) -> list[Run]:
    """Return the runs that are going on, the youngest first.

    Args:
        place: only those that keep their records there, were started there, or have their rings there.
    """
    found = sorted(_all_runs(), key=lambda run: -run.began)
    if place is None:
        return found
    wanted = place.resolve()
    return [run for run in found if wanted in _places(run)]


def _places(run: Run) -> set[Path]:
    out = run.out if run.out is not None else run.cwd / "paceline-out"
    return {run.folder.resolve(), run.cwd.resolve(), out.resolve()}


def _all_runs() -> Iterator[Run]:
    for parent in {MEMORY, Path(tempfile.gettempdir())}:
        for folder in parent.glob(f"{PREFIX}*"):
            run = _read(folder)
            if run is not None:
                yield run


def _read(folder: Path) -> Run | None:
    with suppress(OSError, ValueError, KeyError, TypeError):
        about = json.loads((folder / _ABOUT).read_text())
        if start_time(about["pid"]) != about["start_time"]:
            return None
        return Run(
            folder=folder,
            pid=about["pid"],
            command=tuple(map(str, about["command"])),
            cwd=Path(about["cwd"]),
            out=Path(about["out"]) if about["out"] else None,
            began=float(about["began"]),
        )
    return None
