"""What is done before a run and after it, whoever has started its ranks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from paceline.bench.data.manifest import check_manifest
from paceline.bench.data.store import store_of
from paceline.bench.results.result_folder import make_folder, read_summary, summarise_failed
from paceline.bench.results.run_summary import RunSummary
from paceline.bench.workload.sections import Workload
from paceline.bench.workload.split_plans import plan_summaries

_FAILED = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedRun:
    """One run of a workload: its folder, its figures, and the exit code of its ranks."""

    folder: Path
    summary: RunSummary
    exit_code: int


def prepare_run(workload: Workload, ranks: int, folder: Path) -> int:
    """Check that a workload can run on a number of ranks, and make its folder; return how many bytes its files have.

    What an earlier run has left in the folder is removed only after all checks.
    """
    plan_summaries(workload, ranks)  # a plan without a step is an error
    splits = check_manifest(workload, store_of(workload))
    make_folder(folder)
    return sum(split["num_bytes"] for split in splits.values())


def finish_run(
    workload: Workload, ranks: int, folder: Path, *, exit_code: int, num_bytes: int, outcome: str = "failed"
) -> FinishedRun:
    """Return a run that has ended. Its first rank has written the figures, if the run succeeded.

    Args:
        workload: What was run.
        ranks: On how many ranks.
        folder: Where their figures are.
        exit_code: The exit code of its ranks.
        num_bytes: What `prepare_run` has returned.
        outcome: How the run ended, if there are no figures.
    """
    summary = read_summary(folder)
    if summary is None:
        summary = summarise_failed(folder, workload, world_size=ranks, num_bytes=num_bytes, outcome=outcome)
        exit_code = exit_code or _FAILED
    return FinishedRun(folder=folder, summary=summary, exit_code=exit_code)
