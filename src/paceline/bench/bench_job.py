"""Runs a workload on ranks of this machine under the guard: once, several times, or with more and more ranks.

What shows a run is handed in as `watch`, which stands for `watched_run`; nothing is printed here.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from paceline.bench.prepared_run import FinishedRun, finish_run, prepare_run
from paceline.bench.results.fit import Fit, FitTrial, fit
from paceline.bench.training.launch_time import launch_variables
from paceline.bench.workload_choice import WorkloadChoice
from paceline.errors import PacelineError
from paceline.guard.run.watch_options import WatchOptions
from paceline.guard.run.watched_run import RunResult, watched_run
from paceline.launch.local_ranks import local_command

Watch = Callable[[Sequence[str], WatchOptions], RunResult]
_SEED_BITS = 31


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchJob:
    """How a workload is run.

    Attributes:
        choice: The workload.
        carrier: What ranks talk over: `mpi` or `torch`.
        options: What is asked of the guard; where records go is decided for each run.
        watch: Runs a command under the guard.
    """

    choice: WorkloadChoice
    carrier: str
    options: WatchOptions
    watch: Watch = watched_run


def draw_seed(choice: WorkloadChoice) -> WorkloadChoice:
    """Draw the seed of a workload whose shuffle differs from run to run: all ranks must have the same."""
    reader = choice.workload.reader
    if "random" not in (reader.file_shuffle, reader.sample_shuffle):
        return choice
    return choice.overridden(f"train.seed={random.SystemRandom().getrandbits(_SEED_BITS)}")


def run_once(job: BenchJob, ranks: int, folder: Path, *, began: float) -> FinishedRun:
    """Run a workload on a number of ranks.

    Args:
        job: What is run, and how.
        ranks: The number of ranks.
        folder: Where their figures go, and the guard's records.
        began: When the user asked for it, in seconds since 1970: the time to the first batch counts from then.
    """
    workload = job.choice.workload
    num_bytes = prepare_run(workload, ranks, folder)
    worker = job.choice.worker_command("--out", str(folder), "--carrier", job.carrier)
    options = replace(
        job.options,
        asked=("paceline", "bench", "run", job.choice.name, *job.choice.overrides, "-n", str(ranks)),
        out=folder / "records",
        variables={**launch_variables(began), **job.choice.worker_variables()},
    )
    result = job.watch(local_command(ranks, job.carrier, worker), options)
    outcome = "finding" if result.finding is not None else "failed"
    return finish_run(workload, ranks, folder, exit_code=result.exit_code, num_bytes=num_bytes, outcome=outcome)


def run_repeatedly(job: BenchJob, ranks: int, folder: Path, *, times: int, began: float) -> Iterator[FinishedRun]:
    """Run a workload, several times one after the other; each run has a folder of its own in `folder`."""
    for number in range(times):
        own = folder if times == 1 else folder / f"{number + 1}"
        yield run_once(job, ranks, own, began=began if number == 0 else time.time())


def fit_ranks(job: BenchJob, folder: Path, *, most: int, on_trial: Callable[[FitTrial], None]) -> Fit:
    """Find the largest number of ranks that storage keeps busy.

    Args:
        job: What is run, and how.
        folder: Where the figures of all trials go.
        most: The largest number of ranks to try.
        on_trial: Called after each trial.
    """
    workload = job.choice.workload

    def attempt(ranks: int) -> FitTrial:
        own = folder / f"{ranks}"
        run = run_once(job, ranks, own, began=time.time())
        if run.exit_code:
            raise PacelineError(f"the run of {ranks} ranks failed with code {run.exit_code}: see {own}")
        metric = run.summary["metric"]
        trial = FitTrial(
            ranks=ranks,
            utilisation=metric["train_au_mean_percentage"],
            samples_per_second=metric["train_throughput_mean_samples_per_second"],
        )
        on_trial(trial)
        return trial

    return fit(attempt, target=100 * workload.metric.au, most=most)
