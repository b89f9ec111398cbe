"""One rank's log of a run: a line of JSON for each step, handed to the kernel before the next step begins.

What is read may have been damaged since, by a full disk for one. Each line is checked on its own.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypedDict

_LARGEST = float(1 << 63)
_WHOLE, _NUMBER, _TEXT = (int,), (int, float), (str,)
_MAYBE_WHOLE = (int, type(None))
# what figures are made of, by the kind of a line
_FIELDS: dict[str, dict[str, tuple[type, ...]]] = {
    "rank": {
        "rank": _WHOLE, "world_size": _WHOLE, "host": _TEXT, "carrier": _TEXT, "cpu_count": _WHOLE,
        "memory_bytes": _WHOLE, "began": _NUMBER,
    },
    "first_batch": {"first_batch_seconds": _NUMBER},
    "step": {
        "phase": _TEXT, "epoch": _WHOLE, "load": _NUMBER, "compute": _NUMBER, "sync": _NUMBER, "samples": _WHOLE,
        "bytes": _WHOLE,
    },
    "epoch": {
        "phase": _TEXT, "epoch": _WHOLE, "seconds": _NUMBER, "cpu": _NUMBER, "asked": _MAYBE_WHOLE,
        "from_device": _MAYBE_WHOLE,
    },
    "checkpoint": {"bytes": _WHOLE, "save": _NUMBER, "load": _NUMBER},
    "end": {"ended": _NUMBER},
    "failure": {"failure": _TEXT},
}  # fmt: skip
_MOMENTS = ("began", "ended")  # in seconds since 1970, of years that a date can have
_FIRST_OF_YEAR_10000 = 253_402_300_800
UNREADABLE = "unreadable"  # the kind of a line that is damaged


class StepLine(TypedDict):
    """One step: seconds of loading, computing and waiting for others, and what was read."""

    load: float
    compute: float
    sync: float
    samples: int
    bytes: int


class EpochLine(TypedDict):
    """The end of one pass: its seconds, and what the kernel has counted."""

    seconds: float
    cpu: float
    asked: int | None
    from_device: int | None


class CheckpointLine(TypedDict):
    """One checkpoint: this rank's bytes, and the seconds to write them and to read them back."""

    bytes: int
    save: float
    load: float


class RankLog:
    """Writes `{rank}.jsonl`. Each line is one write, so a rank that is killed loses no line."""

    def __init__(self, folder: Path, rank: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._handle = os.open(folder / f"{rank}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)

    def note(self, kind: str, **values: Any) -> None:
        """Write one line."""
        self._write(json.dumps({"kind": kind, **values}) + "\n")

    def step(
        self, phase: str, epoch: int, step: int, times: tuple[float, float, float], samples: int, num_bytes: int
    ) -> None:
        """Write the line of a step: seconds of loading, computing and waiting for others."""
        load, compute, sync = times
        self._write(
            f'{{"kind": "step", "phase": "{phase}", "epoch": {epoch}, "step": {step}, "load": {load:.6f}, '
            f'"compute": {compute:.6f}, "sync": {sync:.6f}, "samples": {samples}, "bytes": {num_bytes}}}\n'
        )

    def _write(self, line: str) -> None:
        content = line.encode()
        while content:
            content = content[os.write(self._handle, content) :]

    def close(self) -> None:
        """Close the file."""
        os.close(self._handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_log(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines of a rank's log; a last line that is cut off is left out, and a damaged one is `UNREADABLE`."""
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield _checked_line(line)


def _checked_line(line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {"kind": UNREADABLE}
    kind = value.get("kind") if isinstance(value, dict) else None
    if not isinstance(kind, str):
        return {"kind": UNREADABLE}
    # a kind of a later version is handed on
    fields = _FIELDS.get(kind, {})
    fits = all(_fits(value.get(name, ...), types) for name, types in fields.items())
    has_dates = fits and all(0 <= value[name] < _FIRST_OF_YEAR_10000 for name in _MOMENTS if name in fields)
    return value if has_dates else {"kind": UNREADABLE}


def _fits(value: Any, types: tuple[type, ...]) -> bool:
    """Say whether a value is of these types; numbers must be of a size that can be added up."""
    if isinstance(value, bool) or not isinstance(value, types):
        return False
    return not isinstance(value, int | float) or (abs(value) < _LARGEST and math.isfinite(value))


def logs_in(folder: Path) -> list[Path]:
    """Return the logs of a run, in the order of ranks."""
    return sorted((path for path in folder.glob("*.jsonl") if path.stem.isdecimal()), key=lambda path: int(path.stem))


def is_log(path: Path) -> bool:
    """Tell whether a file is the log of a rank, by its first line; a rank that has just begun has written none."""
    with path.open("rb") as file:
        first = file.readline(1 << 16)
    try:
        line = json.loads(first) if first else {"kind": ""}
    except ValueError:
        return False
    return isinstance(line, dict) and "kind" in line
