"""Runs in progress: what each says about itself in its folder, and how another process finds it and follows it.

A follower changes nothing. How the run ended is written to a file that is there from the start: whoever holds it open
can still read it when the folder has been removed.
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

from paceline.guard.run.kept_records import DEFAULT_FOLDER
from paceline.guard.run.run_folder import MEMORY, PREFIX
from paceline.guard.verdict.finding import Finding
from paceline.guard.verdict.finding_json import diagnosis_to_json, finding_from_json
from paceline.process.procfs import start_time
from paceline.process.whole_files import write_whole

_ABOUT, _OUTCOME = "about.json", "outcome.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class OngoingRun:
    """A run in progress."""

    folder: Path  # where its rings are
    pid: int  # of the judge
    command: tuple[str, ...]
    cwd: Path
    out: Path | None  # the folder for records that was asked for
    began: float  # seconds since 1970


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """How a run ended."""

    exit_code: int | None  # None where only the job's launcher knows it
    finding: Finding | None
    records: Path | None  # where the records were kept


def announce_run(folder: Path, command: Sequence[str], out: Path | None) -> None:
    """Say in the folder of a run what it is, so that others find it."""
    pid = os.getpid()
    about = {
        "version": 1, "pid": pid, "start_time": start_time(pid), "command": list(command), "cwd": os.getcwd(),
        "out": str(out.absolute()) if out is not None else None, "began": time.time(),
    }  # fmt: skip
    (folder / _OUTCOME).touch(mode=0o600)
    write_whole(folder / _ABOUT, json.dumps(about).encode())


def write_outcome(folder: Path, outcome: RunOutcome) -> None:
    """Write how the run ended into the file that followers hold open."""
    records = str(outcome.records.absolute()) if outcome.records is not None else None
    value = {**diagnosis_to_json(outcome.exit_code, outcome.finding), "records": records}
    with suppress(FileNotFoundError), (folder / _OUTCOME).open("r+") as file:
        file.truncate()
        file.write(json.dumps(value))


def open_outcome(run: OngoingRun) -> IO[str]:
    """Open the file to which the run will write how it ended."""
    return (run.folder / _OUTCOME).open()


def read_outcome(file: IO[str]) -> RunOutcome | None:
    """Return how the run ended; None if it did not say, for example because it was killed."""
    file.seek(0)
    try:
        value = json.load(file)
    except ValueError:  # empty, or cut off in the middle
        return None
    return parse_outcome(value)


def parse_outcome(value: Any, records: Path | None = None) -> RunOutcome:
    """Return the outcome that a diagnosis holds; raise ValueError, TypeError or KeyError if it is not a diagnosis.

    Args:
        value: What was read as JSON.
        records: Where the records are, if the diagnosis lies among them and does not say so.
    """
    if records is None and value["records"]:
        records = Path(value["records"])
    code, finding = value["exit_code"], value["finding"]
    return RunOutcome(
        exit_code=None if code is None else int(code),
        finding=None if finding is None else finding_from_json(finding),
        records=records,
    )


def is_ongoing(run: OngoingRun) -> bool:
    """Say whether the judge of a run still lives."""
    now = _read(run.folder)
    return now is not None and now.pid == run.pid


def find_runs(folder: Path | None = None) -> list[OngoingRun]:
    """Return the runs in progress, the youngest first.

    Args:
        folder: Only those that keep their records there, were started there, or have their rings there.
    """
    runs = sorted(_all_runs(), key=lambda run: -run.began)
    if folder is None:
        return runs
    wanted = folder.resolve()
    return [run for run in runs if wanted in _folders_of(run)]


def _folders_of(run: OngoingRun) -> set[Path]:
    out = run.out if run.out is not None else run.cwd / DEFAULT_FOLDER
    return {run.folder.resolve(), run.cwd.resolve(), out.resolve()}


def _all_runs() -> Iterator[OngoingRun]:
    for parent in {MEMORY, Path(tempfile.gettempdir())}:
        for folder in parent.glob(f"{PREFIX}*"):
            run = _read(folder)
            if run is not None:
                yield run


def _read(folder: Path) -> OngoingRun | None:
    """Return what a run says about itself; None if there is no such run, or its judge has exited."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        about = json.loads((folder / _ABOUT).read_text())
        if start_time(about["pid"]) != about["start_time"]:
            return None
        return OngoingRun(
            folder=folder,
            pid=about["pid"],
            command=tuple(map(str, about["command"])),
            cwd=Path(about["cwd"]),
            out=Path(about["out"]) if about["out"] else None,
            began=float(about["began"]),
        )
    return None
