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
from paceline.guard.shared_memory.ring import judge_lives
from paceline.guard.verdict.finding import Finding
from paceline.guard.verdict.finding_json import (
    diagnosis_to_json,
    finding_from_json,
    warning_from_json,
    warning_to_json,
    warnings_from_json,
)
from paceline.guard.verdict.job_warning import JobWarning
from paceline.process.hidden_secrets import without_secrets
from paceline.process.private_files import is_private_folder, open_private, read_private, write_private

VIEWERS = "viewers.json"  # where a run on several hosts is shown, and with which key
_ABOUT, _ABOUT_ASIDE, _OUTCOME, _WARNINGS = "about.json", ".about.json", "outcome.json", "warnings.jsonl"
_MOST_BYTES = 16 << 20  # of one of these files
_BROKEN = (
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    RecursionError,
    OverflowError,
)


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
    warnings: tuple[JobWarning, ...] = ()  # what did not stop the job
    unwritten: str | None = None  # what could not be kept, and why; it does not travel


def announce_run(folder: Path, command: Sequence[str], out: Path | None) -> None:
    """Say in the folder of a run what it is, so that others find it. Without room for it, nobody can watch the run."""
    about = {
        "version": 1, "pid": os.getpid(), "command": without_secrets(command), "cwd": os.getcwd(),
        "out": str(out.absolute()) if out is not None else None, "began": time.time(),
    }  # fmt: skip
    with suppress(OSError):
        write_private(folder / _OUTCOME, b"")
        write_private(folder / _ABOUT_ASIDE, json.dumps(about).encode())
        (folder / _ABOUT_ASIDE).rename(folder / _ABOUT)  # whole, or not there


def write_outcome(folder: Path, outcome: RunOutcome) -> None:
    """Write how the run ended into the file that followers hold open, if it is there and there is room."""
    records = str(outcome.records.absolute()) if outcome.records is not None else None
    value = {**diagnosis_to_json(outcome.exit_code, outcome.finding, outcome.warnings), "records": records}
    with suppress(OSError), open(open_private(folder / _OUTCOME, os.O_WRONLY | os.O_TRUNC), "wb", buffering=0) as file:
        file.write(json.dumps(value).encode())


def open_outcome(run: OngoingRun) -> IO[str]:
    """Open the file to which the run will write how it ended."""
    return open(open_private(run.folder / _OUTCOME), encoding="utf-8")


def read_outcome(file: IO[str]) -> RunOutcome | None:
    """Return how the run ended; None if it did not say, for example because it was killed or had no room."""
    file.seek(0)
    try:
        return parse_outcome(json.loads(file.read(_MOST_BYTES)))
    except _BROKEN:  # empty, or cut off in the middle
        return None


def outcome_text(folder: Path) -> bytes:
    """Return what a run has written of how it ended; nothing if it has not."""
    try:
        return read_private(folder / _OUTCOME, most=_MOST_BYTES)
    except OSError:  # there was no room for it, or the folder has gone
        return b""


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
        warnings=warnings_from_json(value),
    )


def announce_warning(folder: Path, warning: JobWarning) -> None:
    """Tell those who watch the run from elsewhere of a warning, if there is room."""
    with suppress(OSError):
        write_private(folder / _WARNINGS, json.dumps(warning_to_json(warning)).encode() + b"\n", append=True)


def read_warnings(run: OngoingRun) -> list[JobWarning]:
    """Return the warnings that a run in progress has told so far."""
    try:
        lines = read_private(run.folder / _WARNINGS, most=_MOST_BYTES).splitlines(keepends=True)
    except OSError:  # none so far, or the run has ended and removed its folder
        return []
    warnings = []
    for line in lines:
        with suppress(*_BROKEN):  # cut off: there was no room
            warnings.append(warning_from_json(json.loads(line)))
    return warnings


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
    """Return what a run of this user says about itself; None if there is no such run, or its judge has exited."""
    if not is_private_folder(folder) or not judge_lives(folder):
        return None
    with suppress(OSError, *_BROKEN):
        about = json.loads(read_private(folder / _ABOUT, most=_MOST_BYTES))
        return OngoingRun(
            folder=folder,
            pid=int(about["pid"]),
            command=tuple(map(str, about["command"])),
            cwd=Path(about["cwd"]),
            out=Path(about["out"]) if about["out"] else None,
            began=float(about["began"]),
        )
    return None
