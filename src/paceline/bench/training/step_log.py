"""One rank's log of a run: a line of JSON for each step, handed to the kernel before the next step begins."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypedDict


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
    """Yield the lines of a rank's log; a last line that is cut off is left out."""
    with path.open() as file:
        for line in file:
            if line.endswith("\n"):
                yield json.loads(line)


def logs_in(folder: Path) -> list[Path]:
    """Return the logs of a run, in the order of ranks."""
    return sorted((path for path in folder.glob("*.jsonl") if path.stem.isdecimal()), key=lambda path: int(path.stem))
