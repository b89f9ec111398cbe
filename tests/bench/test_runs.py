"""Ranks as threads go through workloads: steps, samples, bytes and figures, for remainders of every kind."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import cast

import pytest
from tests.bench import runs

from paceline import run_ranks
from paceline.bench.results.compare import compare_runs
from paceline.bench.results.fit import FitTrial, fit
from paceline.bench.results.result_folder import runs_in, summarise_failed, write_summary
from paceline.bench.results.run_summary import RunSummary
from paceline.bench.training.checkpoint import CheckpointError
from paceline.bench.training.emulated_compute import EmulatedCompute
from paceline.bench.training.step_log import read_log
from paceline.bench.workload.sections import Workload
from paceline.errors import EmptyPlanError, InputError
from paceline.loader.agreement.problem import LoadError
from paceline.report.text.bench_text import comparison_as_text, fit_as_text, summary_as_text


def run(folder: Path, ranks: int, *workloads: Workload) -> list[RunSummary]:
    outcomes = run_ranks(runs.run_all, ranks, args=(list(workloads), str(folder / "out")), carrier="threads")
    for outcome in outcomes:
        assert outcome.ok, outcome.traceback
    summaries: list[RunSummary] = outcomes[0].value
    return summaries


@pytest.mark.parametrize("ranks", [1, 2, 3, 5, 7])
@pytest.mark.parametrize("tail", ["drop", "even", "pad", "repeat"])
def test_equal_steps_and_every_sample_counted(tmp_path: Path, ranks: int, tail: str) -> None:
    """20 files of 2 samples in batches of 3: a remainder for every number of ranks."""
    data = {"num_samples_per_file": 2, "format": "raw"}
    workload = runs.workload_of(tmp_path, dataset=data, reader={"tail": tail}, train={"epochs": 2})
    runs.write_files(workload)
    (told,) = run(tmp_path, ranks, workload)
    counts, more = told["plan"]["train"], told["paceline"]
    assert more["steps_per_rank"] == dict.fromkeys(range(ranks), 2 * counts["num_steps"])
    assert counts["num_used"] + counts["num_dropped"] == 40
    assert more["samples_read"] == 2 * (counts["num_used"] + counts["num_repeated"])
    assert more["bytes_read"] == 600 * more["samples_read"]
    assert len(told["metric"]["train_au_percentage"]) == 2


def test_compute_evaluation_and_checkpoints_are_figures(tmp_path: Path) -> None:
    workload = runs.workload_of(
        tmp_path,
        workflow={"evaluation": True, "checkpoint": True},
        dataset={"num_files_eval": 5},
        reader={"batch_size_eval": 2},
        train={"epochs": 3, "computation_time": 0.01, "compute": "matrix", "sync": "all_reduce"},
        evaluation={"eval_after_epoch": 2, "eval_time": 0.001},
        checkpoint={"type": "all_ranks", "keep": True, "epochs_between_checkpoints": 2},
        model={"model_size_bytes": 4001},
    )
    runs.write_files(workload)
    (told,) = run(tmp_path, 3, workload)
    metric = told["metric"]
    assert len(metric["train_throughput_samples_per_second"]) == 3
    assert len(metric["eval_throughput_samples_per_second"]) == 2
    assert metric["num_checkpoints"] == 2
    assert len(list((tmp_path / "checkpoints").iterdir())) == 6
    assert 0 < metric["train_au_mean_percentage"] <= 100
    assert metric["save_checkpoint_io_mean_GB_per_second"] > 0
    assert metric["load_checkpoint_duration_mean_seconds"] > 0
    assert told["plan"]["eval"] == {"num_steps": 1, "num_used": 5, "num_dropped": 0, "num_padded": 1, "num_repeated": 0}
    text = summary_as_text(told)
    for said in ("train utilisation", "checkpoint written", "5 used", "fits in memory", "2 dropped"):
        assert said in text


def test_checkpoints_by_steps_and_a_limit_of_steps(tmp_path: Path) -> None:
    workload = runs.workload_of(
        tmp_path,
        workflow={"checkpoint": True},
        train={"epochs": 9, "total_training_steps": 8},
        checkpoint={"steps_between_checkpoints": 3, "keep": True},
    )
    runs.write_files(workload)
    (told,) = run(tmp_path, 2, workload)
    assert told["paceline"]["steps_per_rank"] == {0: 8, 1: 8}
    names = sorted(path.name for path in (tmp_path / "checkpoints").iterdir())
    assert names == ["step-3-rank-0.ckpt", "step-6-rank-0.ckpt"]


@pytest.mark.parametrize("balance", ["none", "plan", "exchange"])
def test_ragged_samples_reach_the_model_as_they_are(tmp_path: Path, balance: str) -> None:
    data = {"record_length_bytes_stdev": 250, "num_files_train": 21, "format": "raw"}
    train = {"compute_by": "bytes", "computation_time": 0.001}
    workload = runs.workload_of(tmp_path, dataset=data, train=train, reader={"balance": balance, "tail": "pad"})
    runs.write_files(workload)
    (told,) = run(tmp_path, 3, workload)
    assert told["paceline"]["samples_read"] == 21
    files = sum(path.stat().st_size for path in (tmp_path / "data" / "train").iterdir())
    assert told["paceline"]["bytes_read"] == files


@pytest.mark.parametrize(("compute_by", "moves"), [("bytes", True), ("step", False)])
def test_rows_are_exchanged_only_where_that_saves_compute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compute_by: str, moves: bool
) -> None:
    monkeypatch.setenv("PACELINE_RUN_FOLDER", str(tmp_path))
    monkeypatch.setattr(EmulatedCompute, "run", lambda self, share=1.0: None)
    data = {"record_length_bytes_stdev": 250, "num_files_train": 24, "format": "raw"}
    train = {"compute_by": compute_by, "computation_time": 1000.0}
    workload = runs.workload_of(tmp_path, dataset=data, train=train, reader={"balance": "exchange"})
    runs.write_files(workload)
    run(tmp_path, 2, workload)
    (notes,) = tmp_path.glob("work.*.jsonl")
    steps = [note for note in map(json.loads, notes.read_text().splitlines()) if "moved" in note]
    assert steps
    assert any(step["moved"] for step in steps) == moves
    assert any("did_not_pay" in step for step in steps) != moves


def test_a_cold_cache_and_pauses_change_no_counts(tmp_path: Path) -> None:
    reader = {"cache": "drop", "preprocess_time": 0.001, "tail": "pad"}
    workload = runs.workload_of(tmp_path, reader=reader, output={"exclude_start_steps": 99})
    runs.write_files(workload)
    (told,) = run(tmp_path, 2, workload)
    assert told["paceline"]["samples_read"] == 20
    assert told["metric"]["train_throughput_samples_per_second"][0] > 0


def test_a_damaged_file_is_the_same_error_on_all_ranks_and_figures_stay(tmp_path: Path) -> None:
    workload = runs.workload_of(tmp_path, reader={"sample_shuffle": "off"})
    runs.write_files(workload)
    path = tmp_path / "data" / "train" / "img_16_of_20.npz"
    path.write_bytes(path.read_bytes()[:100])
    outcomes = run_ranks(runs.run_all, 3, args=([workload], str(tmp_path / "out")), carrier="threads")
    assert {str(outcome.error) for outcome in outcomes} == {str(outcomes[0].error)}
    assert isinstance(outcomes[0].error, LoadError)
    assert "img_16_of_20.npz" in str(outcomes[0].error)
    told = summarise_failed(tmp_path / "out" / "0", workload, world_size=3, num_bytes=1, outcome="failed")
    assert told["paceline"]["steps_per_rank"] == {0: 1, 1: 1, 2: 1}
    assert "img_16_of_20.npz" in (told["failure"] or "")
    assert told["outcome"] == "failed"


def test_a_checkpoint_that_cannot_be_written_is_the_same_error_on_all_ranks(tmp_path: Path) -> None:
    workload = runs.workload_of(tmp_path, workflow={"checkpoint": True}, checkpoint={"type": "all_ranks"})
    runs.write_files(workload)
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "epoch-0-rank-1.ckpt.part").symlink_to("/dev/full")
    outcomes = run_ranks(runs.run_all, 3, args=([workload], str(tmp_path / "out")), carrier="threads")
    for outcome in outcomes:
        assert isinstance(outcome.error, CheckpointError)
        assert "rank 1 could not write its checkpoint" in str(outcome.error)
        assert "No space left on device" in str(outcome.error)
    kinds = [line["kind"] for line in read_log(tmp_path / "out" / "0" / "2.jsonl")]
    assert kinds == ["rank", "first_batch", "step", "step", "epoch", "failure"]


def summary(rate: float, ranks: int = 2) -> RunSummary:
    """A summary with one figure."""
    metric = {"train_throughput_mean_samples_per_second": rate}
    partial = {"workload": "w", "outcome": "ok", "num_accelerators": ranks, "metric": metric, "paceline": {}}
    return cast(RunSummary, partial)


def test_runs_are_compared_with_their_spread(tmp_path: Path) -> None:
    for side, rates in (("a", [100, 110]), ("b", [150, 160]), ("c", [105, 120])):
        for number, rate in enumerate(rates):
            place = tmp_path / side / f"{number}"
            place.mkdir(parents=True)
            write_summary(place, summary(rate))
    first, second, third = (runs_in(str(tmp_path / side)) for side in "abc")
    (found,), differences = compare_runs(first, second)
    assert (round(found.ratio or 0, 3), found.verdict, differences) == (1.476, "better", [])
    assert compare_runs(first, third)[0][0].verdict == "within the spread"
    assert compare_runs(second, first)[0][0].verdict == "worse"
    assert compare_runs(first[:1], second[:1])[0][0].verdict == "one run: no spread"
    told, differences = compare_runs(first, [summary(9, ranks=4)])
    assert differences == ["num_accelerators: 2 against 4"]
    assert "they differ in num_accelerators" in comparison_as_text(told, differences, ("a", "b"))
    with pytest.raises(InputError, match="holds no summary"):
        runs_in(str(tmp_path / "nothing"))


@pytest.mark.parametrize("limit", [0, 1, 2, 3, 5, 6, 11, 12])
def test_fit_finds_the_largest_number(limit: int) -> None:
    def attempt(ranks: int) -> FitTrial:
        return FitTrial(ranks=ranks, utilisation=95.0 if ranks <= limit else 60.0, samples_per_second=1.0)

    found = fit(attempt, target=90, most=11)
    assert found.largest == min(limit, 11)
    assert ("--most 11" in found.limit) == (limit >= 11)
    assert len({tried.ranks for tried in found.trials}) == len(found.trials) <= 7
    assert (f"{found.largest} accelerators" if limit else "not even one") in fit_as_text(found)


def test_fit_says_when_the_data_set_is_too_small_for_more() -> None:
    def attempt(ranks: int) -> FitTrial:
        if ranks > 3:
            raise EmptyPlanError("20 samples do not fill one step")
        return FitTrial(ranks=ranks, utilisation=95.0, samples_per_second=1.0)

    found = fit(attempt, target=90, most=64)
    assert found.largest == 2
    assert "do not fill" in fit_as_text(found)


def test_a_package_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "paceline.bench.data.formats.parquet", raising=False)
    workload = runs.workload_of(tmp_path, dataset={"format": "parquet"})
    with pytest.raises(InputError, match=r"parquet files need pyarrow.*pip install 'paceline\[bench\]'"):
        runs.write_files(workload)
