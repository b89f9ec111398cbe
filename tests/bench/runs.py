"""Helpers of the benchmark's tests: workloads of a few small files, and what ranks run on them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from paceline.bench.data.generate import generate
from paceline.bench.data.manifest import check_manifest
from paceline.bench.data.store import store_of
from paceline.bench.results.figures import RankFigures, figures_of
from paceline.bench.results.run_summary import RunSummary, summary_of
from paceline.bench.training.step_log import read_log
from paceline.bench.training.training_loop import run_rank
from paceline.bench.workload.sections import Workload
from paceline.bench.workload.split_plans import plan_summaries
from paceline.bench.workload.workload import parse_workload
from paceline.comm import Comm
from paceline.loader.agreement.first_message import gather_json


def workload_of(folder: Path, **sections: dict[str, Any]) -> Workload:
    """A workload of 20 small files, with some settings overridden."""
    given: dict[str, dict[str, Any]] = {
        "dataset": {"data_folder": str(folder / "data"), "num_files_train": 20, "record_length_bytes": 600},
        "reader": {"batch_size": 3, "read_threads": 0, "sample_shuffle": "seed", "verify": True},
        "checkpoint": {"checkpoint_folder": str(folder / "checkpoints")},
    }
    for name, values in sections.items():
        given[name] = {**given.get(name, {}), **values}
    return parse_workload(given, "a test").workload


def write_files(workload: Workload) -> None:
    assert generate(workload, store_of(workload))


def run_all(comm: Comm, workloads: list[Workload], folder: str) -> list[RunSummary]:
    """Run workloads one after the other, on any carrier; return their summaries."""
    summaries = []
    for number, workload in enumerate(workloads):
        store, own = store_of(workload), Path(folder) / f"{number}"
        run_rank(workload, comm, store, own)
        lines = read_log(own / f"{comm.rank}.jsonl")
        figures = figures_of(lines, exclude_start=1, exclude_end=0)
        ranks = [RankFigures.from_json(each) for each in gather_json(comm, figures.to_json())]
        splits = check_manifest(workload, store)
        num_bytes = sum(split["num_bytes"] for split in splits.values())
        plans = plan_summaries(workload, comm.world_size)
        summaries.append(summary_of(ranks, workload, plans=plans, num_bytes=num_bytes))
    return summaries


def write_yaml(path: Path, **sections: Any) -> None:
    path.write_text(json.dumps(sections))  # which is YAML too


def paceline(*arguments: str, cwd: Path, timeout: float = 110, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "paceline", *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        cwd=cwd,
        check=False,
        env={**os.environ, "GLOO_SOCKET_IFNAME": "lo", **environment},
    )
