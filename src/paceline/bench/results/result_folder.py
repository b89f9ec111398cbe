"""The folder of a run: its logs and its summary, which is made from the logs if the run has failed."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from paceline.bench.results.figures import figures_of
from paceline.bench.results.run_summary import RunSummary, summary_of
from paceline.bench.training.step_log import logs_in, read_log
from paceline.bench.workload.sections import Workload
from paceline.bench.workload.split_plans import plan_summaries
from paceline.errors import InputError
from paceline.process.whole_files import write_whole

_SUMMARY = "summary.json"
_DEFAULT = "paceline-bench"


def new_folder(workload: Workload, name: str | None) -> Path:
    """Make a folder for the figures of a run; by default it is named after the workload and the time."""
    if name or workload.output.folder:
        folder = Path(name or workload.output.folder)
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


def write_summary(folder: Path, summary: RunSummary) -> None:
    """Write the summary, whole or not at all."""
    write_whole(folder / _SUMMARY, f"{json.dumps(summary, indent=2)}\n".encode())


def read_summary(folder: Path) -> RunSummary | None:
    """Return the summary of a run, or None if there is none."""
    try:
        return cast(RunSummary, json.loads((folder / _SUMMARY).read_text()))
    except FileNotFoundError:
        return None


def summarise_failed(folder: Path, workload: Workload, *, world_size: int, num_bytes: int, outcome: str) -> RunSummary:
    """Write and return the summary of a run that did not finish: what its ranks have done until then."""
    output = workload.output
    ranks = [
        figures_of(read_log(path), exclude_start=output.exclude_start_steps, exclude_end=output.exclude_end_steps)
        for path in logs_in(folder)
    ]
    plans = plan_summaries(workload, world_size)
    summary = summary_of(ranks, workload, plans=plans, num_bytes=num_bytes, outcome=outcome)
    write_summary(folder, summary)
    return summary


def runs_in(folder: str) -> Sequence[RunSummary]:
    """Return the summaries in a folder, which is that of a run or holds several."""
    path = Path(folder)
    summaries = [summary for part in (path, *sorted(path.glob("*/"))) if (summary := read_summary(part)) is not None]
    if not summaries:
        raise InputError(f"{folder} holds no {_SUMMARY}: name the folder of a run, or one that holds several")
    finished = [summary for summary in summaries if summary["outcome"] == "ok"]
    if not finished:
        raise InputError(f"no run in {folder} has finished")
    return finished
