"""`paceline bench run` as ranks of the user's own launcher: one result for all of them, and figures for each host."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.bench import runs

from paceline.bench.results.figures import RankFigures, figures_of
from paceline.bench.results.run_summary import summary_of
from paceline.bench.workload.split_plans import plan_summaries
from paceline.cli.main import main
from paceline.launch.mpiexec import find_mpiexec
from paceline.process.own_programs import own_module
from paceline.report.text.bench_text import summary_as_text


def figures(rank: int, host: str, *, load: float) -> RankFigures:
    """Return the figures of a rank that has made two steps of one epoch, with 4 samples and 2 MiB each."""
    place = {"rank": rank, "world_size": 3, "host": host, "carrier": "mpi", "cpu_count": 2, "memory_bytes": 1 << 30}
    lines: list[dict[str, Any]] = [{"kind": "rank", **place, "began": 100.0}]
    for step in range(2):
        times = {"load": load, "compute": 0.5, "sync": 1.0 - load}
        lines.append(
            {"kind": "step", "phase": "train", "epoch": 0, "step": step, **times, "samples": 4, "bytes": 2 << 20}
        )
    return figures_of(lines, exclude_start=0, exclude_end=0)


def test_each_host_has_its_figures(tmp_path: Path) -> None:
    workload = runs.workload_of(tmp_path)
    ranks = [figures(0, "a", load=0.25), figures(1, "a", load=0.75), figures(2, "b", load=0.5)]
    summary = summary_of(ranks, workload, plans=plan_summaries(workload, 3), num_bytes=0)
    hosts = summary["paceline"]["hosts"]
    assert hosts["a"]["ranks"] == [0, 1]
    assert hosts["b"]["ranks"] == [2]
    assert hosts["a"]["au_percentage"] == pytest.approx(100 / 3)
    # 16 samples of host a and 8 of host b, in two steps of 1.5 s
    assert (hosts["a"]["samples_per_second"], hosts["b"]["samples_per_second"]) == pytest.approx((16 / 3, 8 / 3))
    assert hosts["b"]["MB_per_second"] == pytest.approx(4 / 3)
    assert (hosts["a"]["load_seconds"], hosts["b"]["load_seconds"]) == pytest.approx((1.5, 1.0))
    told = summary_as_text(summary)
    assert [line.split()[:2] for line in told.splitlines() if "samples/s" in line][-2:] == [
        ["a", "ranks"],
        ["b", "rank"],
    ]


def test_one_host_needs_no_table(tmp_path: Path) -> None:
    workload = runs.workload_of(tmp_path)
    summary = summary_of([figures(0, "a", load=0.25)], workload, plans=plan_summaries(workload, 3), num_bytes=0)
    assert "longest loading" not in summary_as_text(summary)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["-n", "4"], "MPICH has started 3 ranks of this: leave out -n"),
        (["--live"], "paceline run --live"),
        (["--repeat", "2"], "run it several times"),
        ([f"workflow.{part}=False" for part in ("train", "evaluation", "checkpoint")], "nothing to run"),
    ],
)
def test_what_the_launcher_decides_is_not_asked_of_a_rank(
    options: list[str], sentence: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PMI_RANK", "1")
    monkeypatch.setenv("PMI_SIZE", "3")
    assert main(["bench", "run", "small", *options]) == 2
    assert sentence in capsys.readouterr().err


def launched(command: list[str], *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    whole = [*command, *own_module("paceline"), "bench", *arguments]
    return subprocess.run(whole, cwd=cwd, capture_output=True, text=True, timeout=200, check=False)


@pytest.mark.bench
@pytest.mark.timeout(300)
@pytest.mark.parametrize("carrier", ["mpi", "torch"])
def test_ranks_of_a_launcher_make_one_result(tmp_path: Path, carrier: str) -> None:
    command = find_mpiexec().command(3, clean_up=True)
    if carrier == "torch":
        command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "3", "--no-python"]
    settings = [f"dataset.data_folder={tmp_path}/data", "dataset.num_files_train=14", "reader.batch_size=2",
                "train.computation_time=0.01", "reader.file_shuffle=random"]  # fmt: skip
    done = launched(command, "run", "small", *settings, "workflow.generate_data=True", "--out", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(f"3 ranks ({carrier}) on 1 host") == 1, done.stdout
    told = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert (told["outcome"], told["num_accelerators"]) == ("ok", 3)
    (host,) = told["paceline"]["hosts"].values()
    assert host["ranks"] == [0, 1, 2]
    again = launched(command, "run", "small", *settings, "reader.batch_size=90", "--out", "out", cwd=tmp_path)
    assert again.returncode != 0
    assert "no step can be made" in again.stderr
    assert json.loads((tmp_path / "out" / "summary.json").read_text()) == told, "figures stay until a run begins"
