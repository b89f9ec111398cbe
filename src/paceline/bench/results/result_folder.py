"""The folder of a run: what is in it, and the summary of a run that has failed, from what its ranks have written."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from paceline.bench.results.figures import figures_of
from paceline.bench.results.run_summary import summary_of
from paceline.bench.training.step_log import logs_in, read_log
from paceline.bench.workload.sections import Workload
from paceline.bench.workload.split_plans import about_plans
from paceline.errors import InputError
from paceline.process.whole_files import write_whole

_SUMMARY = "summary.json"
_DEFAULT = "paceline-bench"


def new_folder(workload: Workload, given: str | None) -> Path:
    """Make a folder for a run's figures; without a name, one of the workload and the time."""
    if given or workload.output.folder:
        folder = Path(given or workload.output.folder)
    else:
        stamp = time.strftime("%Y%m%d-%H%M%S")
        folder = Path(_DEFAULT) / f"{workload.model.name}-{stamp}"
        number = 1
        while folder.exists():
            number += 1
            folder = Path(_DEFAULT) / f"{workload.model.name}-{stamp}-{number}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for old in (*logs_in(folder), folder / _SUMMARY):
            old.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"{error.filename} cannot be written: {error.strerror}") from None
    return folder


def write_summary(folder: Path, summary: dict[str, Any]) -> None:
    """Write the summary, whole or not at all."""
    write_whole(folder / _SUMMARY, f"{json.dumps(summary, indent=2)}\n".encode())


def read_summary(folder: Path) -> dict[str, Any] | None:
    """Return the summary of a run, or None if there is none."""
    try:
        told: dict[str, Any] = json.loads((folder / _SUMMARY).read_text())
    except FileNotFoundError:
        return None
    return told


def summarise_failed(
    folder: Path, workload: Workload, *, world_size: int, num_bytes: int, outcome: str
) -> dict[str, Any]:
    """Write and return the summary of a run that has come to no end: what its ranks have made until then."""
    output = workload.output
    ranks = [
        figures_of(read_log(path), exclude_start=output.exclude_start_steps, exclude_end=output.exclude_end_steps)
        for path in logs_in(folder)
    ]
    summary = summary_of(ranks, workload, plans=about_plans(workload, world_size), num_bytes=num_bytes, outcome=outcome)
    write_summary(folder, summary)
    return summary


def runs_in(folder: str) -> Sequence[dict[str, Any]]:
    """Return the summaries of a folder: of one run, or of the runs in it."""
    path = Path(folder)
    own = read_summary(path)
    found = [own] if own is not None else []
    found += [told for part in sorted(path.glob("*/")) if (told := read_summary(part)) is not None]
    if not found:
        raise InputError(f"{folder} holds no {_SUMMARY}: name the folder of a run, or one that holds several")
    whole = [told for told in found if told["outcome"] == "ok"]
    if not whole:
        raise InputError(f"no run in {folder} has come to its end")
    return whole
