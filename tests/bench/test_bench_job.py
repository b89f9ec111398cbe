"""Jobs of the benchmark, with a guard that starts nothing: what it is asked, and what becomes of its result."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.bench import runs

from paceline.bench.bench_job import BenchJob, draw_seed, fit_ranks, run_once, run_repeatedly
from paceline.bench.data.generate import generate
from paceline.bench.data.manifest import check_manifest
from paceline.bench.data.store import store_of
from paceline.bench.prepared_run import finish_run, prepare_run
from paceline.bench.results.result_folder import read_summary, write_summary
from paceline.bench.results.run_summary import summary_of
from paceline.bench.training.launch_time import launch_time
from paceline.bench.workload_choice import WorkloadChoice, choose_workload
from paceline.errors import EmptyPlanError, InputError, PacelineError
from paceline.guard.run.watch_options import WatchOptions
from paceline.guard.run.watched_run import RunResult
from paceline.guard.verdict.finding import Cause, Finding, FindingKind

FINDING = Finding(
    kind=FindingKind.DEADLOCK, field=None, ranks=(1,), summary="", cause=Cause.TIMEOUT, advice="", groups=()
)


class FakeGuard:
    """Notes what it is asked to run; writes a summary with a utilisation, unless the run is to fail."""

    def __init__(self, choice: WorkloadChoice, *, exit_code: int = 0, finding: Finding | None = None) -> None:
        self._choice, self._exit_code, self._finding = choice, exit_code, finding
        self.calls: list[tuple[list[str], WatchOptions]] = []
        self.busy_up_to = 3

    def __call__(self, command: Sequence[str], options: WatchOptions) -> RunResult:
        self.calls.append((list(command), options))
        if not self._exit_code:
            assert options.out is not None
            summary = summary_of([], self._choice.workload, plans={}, num_bytes=0)
            ranks = int(options.asked[-1])
            summary["metric"]["train_au_mean_percentage"] = 95.0 if ranks <= self.busy_up_to else 50.0
            summary["metric"]["train_throughput_mean_samples_per_second"] = 1.0
            write_summary(options.out.parent, summary)
        return RunResult(
            exit_code=self._exit_code, finding=self._finding, records=None, num_ranks=0, problems=(), failures=(),
            lost_ranks=(), stopped_by=None,
        )  # fmt: skip


@pytest.fixture
def choice(tmp_path: Path) -> WorkloadChoice:
    data = {"data_folder": str(tmp_path / "data"), "num_files_train": 20, "record_length_bytes": 100, "format": "raw"}
    runs.write_yaml(tmp_path / "w.yaml", dataset=data)
    made = choose_workload(str(tmp_path / "w.yaml"), ["reader.batch_size=2"])
    assert generate(made.workload, store_of(made.workload))
    return made


def job_of(choice: WorkloadChoice, guard: FakeGuard, **options: Any) -> BenchJob:
    return BenchJob(choice=choice, carrier="torch", options=WatchOptions(**options), watch=guard)


def test_a_run_is_watched_with_its_own_records_and_the_time_of_its_launch(
    tmp_path: Path, choice: WorkloadChoice, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "out").mkdir()
    guard = FakeGuard(choice)
    before = dict(os.environ)
    done = run_once(job_of(choice, guard, notice_seconds=3.0), 2, tmp_path / "out", began=1234.5)
    assert dict(os.environ) == before
    ((command, options),) = guard.calls
    assert options.asked == ("paceline", "bench", "run", choice.name, "reader.batch_size=2", "-n", "2")
    assert (options.out, options.notice_seconds) == (tmp_path / "out" / "records", 3.0)
    worker = [sys.executable, "-P", "-m", "paceline", "bench", "worker", choice.name, "--scale"]
    assert f"{worker}"[1:-1] in f"{command}"
    assert "reader.batch_size=2" in " ".join(options.variables.values())
    for name, value in options.variables.items():
        monkeypatch.setenv(name, value)
    assert launch_time() == 1234.5
    assert (done.exit_code, done.summary["outcome"]) == (0, "ok")


@pytest.mark.parametrize(("code", "finding", "outcome"), [(90, FINDING, "finding"), (7, None, "failed")])
def test_a_run_without_a_summary_gets_one_that_says_why(
    tmp_path: Path, choice: WorkloadChoice, code: int, finding: Finding | None, outcome: str
) -> None:
    (tmp_path / "out").mkdir()
    done = run_once(job_of(choice, FakeGuard(choice, exit_code=code, finding=finding)), 2, tmp_path / "out", began=0.0)
    assert (done.exit_code, done.summary["outcome"]) == (code, outcome)
    assert read_summary(tmp_path / "out") == done.summary


def test_wrong_runs_never_reach_the_guard(tmp_path: Path, choice: WorkloadChoice) -> None:
    guard = FakeGuard(choice)
    with pytest.raises(EmptyPlanError):
        run_once(job_of(choice, guard), 11, tmp_path / "out", began=0.0)
    other = choice.overridden("dataset.num_files_train=21")
    with pytest.raises(InputError, match="20 files of raw, but the workload has 21 of raw"):
        run_once(job_of(other, guard), 2, tmp_path / "out", began=0.0)
    assert guard.calls == []


def test_repeated_runs_have_folders_of_their_own(tmp_path: Path, choice: WorkloadChoice) -> None:
    guard = FakeGuard(choice)
    done = list(run_repeatedly(job_of(choice, guard), 2, tmp_path / "out", times=3, began=1.0))
    assert [run.folder for run in done] == [tmp_path / "out" / name for name in "123"]
    began = [options.variables for _, options in guard.calls]
    assert began[0] != began[1]  # each counts from its own start


def test_fit_runs_more_ranks_until_they_are_idle(tmp_path: Path, choice: WorkloadChoice) -> None:
    guard = FakeGuard(choice)
    trials: list[int] = []
    result = fit_ranks(
        job_of(choice, guard), tmp_path / "fit", most=8, on_trial=lambda trial: trials.append(trial.ranks)
    )
    assert (result.largest, trials) == (3, [1, 2, 4, 3])
    assert sorted(path.name for path in (tmp_path / "fit").iterdir()) == ["1", "2", "3", "4"]
    with pytest.raises(PacelineError, match="the run of 1 ranks failed with code 7"):
        fit_ranks(job_of(choice, FakeGuard(choice, exit_code=7)), tmp_path / "bad", most=8, on_trial=lambda trial: None)


def test_a_random_shuffle_draws_one_seed_for_all_ranks_and_leaves_the_choice_alone(choice: WorkloadChoice) -> None:
    assert draw_seed(choice) is choice
    random = choice.overridden("reader.sample_shuffle=random")
    first, second = draw_seed(random), draw_seed(random)
    assert random.overrides == ("reader.batch_size=2", "reader.sample_shuffle=random")
    assert first.workload.train.seed != second.workload.train.seed
    assert f"train.seed={first.workload.train.seed}" in "".join(first.worker_variables().values())


def test_settings_reach_workers_without_being_on_their_command_lines(tmp_path: Path) -> None:
    secret = "storage.storage_options={secret_access_key: hush}"
    choice = choose_workload("small", [f"dataset.data_folder={tmp_path}/data", "dataset.num_files_train=4", secret])
    command = choice.worker_command("--generate", "--share", "0/1")
    assert not any("hush" in part or str(tmp_path) in part for part in command)
    environment = {**os.environ, **choice.worker_variables()}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert check_manifest(choice.workload, store_of(choice.workload))["train"]["num_files"] == 4
    guard = FakeGuard(choice)
    run_once(job_of(choice, guard), 1, tmp_path / "out", began=0.0)
    ((command, options),) = guard.calls
    assert "hush" not in " ".join(command)
    assert options.variables.items() >= choice.worker_variables().items()


def test_old_figures_go_only_when_a_run_begins(tmp_path: Path, choice: WorkloadChoice) -> None:
    folder = tmp_path / "results"
    job = BenchJob(choice=choice, carrier="torch", options=WatchOptions(), watch=FakeGuard(choice))
    run_once(job, 1, folder, began=0.0)
    (folder / "0.jsonl").write_text('{"kind": "step"}\n')
    before = sorted((path.name, path.read_bytes()) for path in folder.iterdir())
    elsewhere = BenchJob(
        choice=choice.overridden(f"dataset.data_folder={tmp_path / 'nothing'}"), carrier="torch",
        options=WatchOptions(), watch=FakeGuard(choice),
    )  # fmt: skip
    with pytest.raises(InputError, match="does not hold this data set"):
        run_once(elsewhere, 1, folder, began=0.0)
    assert sorted((path.name, path.read_bytes()) for path in folder.iterdir()) == before
    run_once(job, 1, folder, began=0.0)
    assert not (folder / "0.jsonl").exists()


@pytest.mark.parametrize(("name", "content"), [("summary.json", "{}"), ("0.jsonl", '["mine"]\n'), ("1.jsonl", "mine")])
def test_files_of_somebody_else_are_not_taken_for_old_figures(
    tmp_path: Path, choice: WorkloadChoice, name: str, content: str
) -> None:
    folder, guard = tmp_path / "results", FakeGuard(choice)
    folder.mkdir()
    (folder / name).write_text(content)
    with pytest.raises(InputError, match=f"{name} was not written by a run of this benchmark"):
        run_once(BenchJob(choice=choice, carrier="torch", options=WatchOptions(), watch=guard), 1, folder, began=0.0)
    assert [path.read_text() for path in folder.iterdir()] == [content]
    assert not guard.calls


def test_a_run_that_is_refused_leaves_no_folder(tmp_path: Path, choice: WorkloadChoice) -> None:
    missing = choice.overridden(f"dataset.data_folder={tmp_path / 'nothing'}")
    job = BenchJob(choice=missing, carrier="torch", options=WatchOptions(), watch=FakeGuard(choice))
    with pytest.raises(InputError):
        run_once(job, 1, tmp_path / "results", began=0.0)
    assert not (tmp_path / "results").exists()


def test_a_run_without_figures_has_failed_whatever_its_ranks_say(choice: WorkloadChoice, tmp_path: Path) -> None:
    num_bytes = prepare_run(choice.workload, 2, tmp_path / "run")
    assert num_bytes == 20 * 100
    ended = finish_run(choice.workload, 2, tmp_path / "run", exit_code=0, num_bytes=num_bytes)
    assert (ended.exit_code, ended.summary["outcome"]) == (1, "failed")
