"""The folder of a run: its logs and its summary, which is made from the logs if the run has failed."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from paceline.bench.results.figures import figures_of
from paceline.bench.results.run_summary import RunSummary, summary_of
from paceline.bench.training.step_log import is_log, logs_in, read_log
from paceline.bench.workload.sections import Workload
from paceline.bench.workload.split_plans import plan_summaries
from paceline.errors import InputError
from paceline.process.foreign_files import read_json
from paceline.process.whole_files import write_whole

_SUMMARY = "summary.json"
_DEFAULT = "paceline-bench"


def choose_folder(workload: Workload, name: str | None) -> Path:
    """Return a folder for the figures of a run; by default it is named after the workload and the time."""
    if name or workload.output.folder:
        return Path(name or workload.output.folder)
    stamp = time.strftime("%Y%m%d-%H%M%S")
    folder = Path(_DEFAULT) / f"{workload.model.name}-{stamp}"
    number = 1
    while folder.exists():
        number += 1
        folder = Path(_DEFAULT) / f"{workload.model.name}-{stamp}-{number}"
    return folder


def make_folder(folder: Path) -> None:
    """Make the folder of a run that is about to begin, without figures of an earlier one.

    Raises:
        InputError: It cannot be made, or it holds files that no run has written and whose names a run needs.
    """
    old = [path for path in (*logs_in(folder), folder / _SUMMARY) if path.exists()]
    foreign = [path for path in old if not (_is_summary(path) if path.name == _SUMMARY else is_log(path))]
    if foreign:
        raise InputError(f"{foreign[0]} was not written by a run of this benchmark: name another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path in old:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"{error.filename} cannot be written: {error.strerror}") from None


def _is_summary(path: Path) -> bool:
    try:
        return _has_summary(read_json(path))
    except (OSError, ValueError):
        return False


def _has_summary(value: Any) -> bool:
    return isinstance(value, dict) and {"outcome", "metric"} <= value.keys()


def write_summary(folder: Path, summary: RunSummary) -> None:
    """Write the summary, whole or not at all."""
    write_whole(folder / _SUMMARY, f"{json.dumps(summary, indent=2)}\n".encode())


def read_summary(folder: Path) -> RunSummary | None:
    """Return the summary of a run, or None if there is none."""
    path = folder / _SUMMARY
    try:
        summary = read_json(path)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if not _has_summary(summary):
        raise InputError(f"{path} was not written by a run of this benchmark")
    return cast(RunSummary, summary)


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
