"""The benchmark as users start it: real ranks of MPI and torch, S3, and what happens when something breaks."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.bench import runs

from paceline import run_ranks
from paceline.bench.workload.sections import FORMATS
from paceline.bench.workload.workload import load_workload
from paceline.launch.mpiexec import find_mpiexec

pytestmark = [pytest.mark.bench, pytest.mark.timeout(300)]


@pytest.mark.parametrize(("carrier", "ranks"), [("torch", 3), ("mpi", 7)])
def test_every_format_and_tail_on_real_ranks(tmp_path: Path, carrier: str, ranks: int) -> None:
    """23 files of 1 or 3 samples in batches of 2: a remainder for 3 and 7 ranks; contents are verified."""
    workloads = []
    for number, name in enumerate(FORMATS):
        per_file = 1 if name in ("jpeg", "png") else 1 + 2 * (number % 2)
        data = {"format": name, "num_files_train": 23, "num_samples_per_file": per_file, "num_files_eval": 3}
        data |= {"data_folder": str(tmp_path / name), "record_length_bytes_stdev": 80 * (number % 3)}
        tail = ("drop", "even", "pad", "repeat")[number % 4]
        reader = {"batch_size": 2, "tail": tail, "batch_size_eval": 2}
        workloads.append(runs.workload_of(tmp_path, dataset=data, reader=reader, workflow={"evaluation": True}))
        runs.write_files(workloads[-1])
    outcomes = run_ranks(runs.run_all, ranks, args=(workloads, str(tmp_path / "out")), carrier=carrier, deadline=200)
    for outcome in outcomes:
        assert outcome.ok, outcome.traceback
    for workload, told in zip(workloads, outcomes[0].value, strict=True):
        counts, held = told["plan"]["train"], told["plan"]["eval"]
        assert set(told["paceline"]["steps_per_rank"].values()) == {counts["num_steps"] + held["num_steps"]}
        read = counts["num_used"] + counts["num_repeated"] + held["num_used"]
        assert told["paceline"]["samples_read"] == read, workload.dataset.format


def write_workload(folder: Path, **sections: Any) -> str:
    given: dict[str, dict[str, Any]] = {
        "model": {"name": "tiny", "model_size_bytes": 30_000},
        "dataset": {"data_folder": str(folder / "data"), "num_files_train": 40, "record_length_bytes": 2000},
        "reader": {"batch_size": 2, "read_threads": 0},
        "checkpoint": {"checkpoint_folder": str(folder / "checkpoints"), "type": "all_ranks"},
    }
    for name, values in sections.items():
        given[name] = {**given.get(name, {}), **values}
    path = folder / "tiny.yaml"
    runs.write_yaml(path, **given)
    return str(path)


def summary_in(folder: Path) -> dict[str, Any]:
    told: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    return told


def test_generate_run_and_compare_from_the_command_line(tmp_path: Path) -> None:
    workload = write_workload(tmp_path, workflow={"checkpoint": True})
    missing = runs.paceline("bench", "run", workload, "-n", "3", cwd=tmp_path)
    assert (missing.returncode, "paceline bench generate" in missing.stderr) == (2, True)
    none = runs.paceline("bench", "run", workload, "-n", "3", "reader.batch_size=14", cwd=tmp_path)
    assert (none.returncode, "no step can be made" in none.stderr) == (2, True)
    made = runs.paceline("bench", "generate", workload, "-n", "2", cwd=tmp_path)
    assert made.stdout.startswith("40 train files, 40 samples"), made.stderr
    done = runs.paceline(
        "bench", "run", workload, "-n", "3", "--out", "out", "reader.read_threads=1",
        "reader.cache=drop", "train.epochs=2", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = summary_in(tmp_path / "out")
    assert told["carrier"] == "mpi"
    assert told["paceline"]["steps_per_rank"] == {"0": 12, "1": 12, "2": 12}
    assert told["plan"]["train"]["num_dropped"] == 4
    assert told["metric"]["num_checkpoints"] == 2
    assert "36 used, 4 dropped" in done.stdout
    beside = runs.paceline("bench", "compare", "out", "out", "--page", "compare.html", cwd=tmp_path)
    assert "Nothing differs by more than runs of one side do." in (tmp_path / "compare.html").read_text()
    assert "train_throughput_mean_samples_per_second" in beside.stdout, beside.stderr


def test_a_damaged_file_ends_all_ranks_with_its_name_and_figures_stay(tmp_path: Path) -> None:
    workload = write_workload(tmp_path)
    runs.write_files(load_workload(workload).workload)
    path = tmp_path / "data" / "train" / "img_31_of_40.npz"
    path.write_bytes(path.read_bytes()[:500])
    done = runs.paceline("bench", "run", workload, "-n", "3", "--carrier", "torch", "--out", "out", cwd=tmp_path)
    assert done.returncode == 1
    assert "rank 1 could not load sample 31 at step 5 of epoch 0" in done.stderr
    assert "img_31_of_40.npz: DamagedError: the archive is cut off" in done.stderr
    told = summary_in(tmp_path / "out")
    assert (told["outcome"], told["paceline"]["steps_per_rank"]) == ("failed", {"0": 5, "1": 5, "2": 5})


def test_a_full_disk_ends_all_ranks_and_is_said_once(tmp_path: Path) -> None:
    workload = write_workload(tmp_path, workflow={"checkpoint": True})
    runs.write_files(load_workload(workload).workload)
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "epoch-0-rank-2.ckpt.part").symlink_to("/dev/full")
    done = runs.paceline("bench", "run", workload, "-n", "3", "--out", "out", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.count("rank 2 could not write its checkpoint") == 1
    assert "No space left on device" in done.stderr
    assert set(summary_in(tmp_path / "out")["paceline"]["steps_per_rank"].values()) == {6}


@pytest.mark.parametrize(("carrier", "codes"), [("torch", {90}), ("mpi", {9, 90, 137})])
def test_a_rank_that_is_killed_ends_the_run_and_figures_stay(tmp_path: Path, carrier: str, codes: set[int]) -> None:
    """mpiexec kills the others at once: if none of them waits by then, there is nothing to find."""
    workload = write_workload(tmp_path, train={"computation_time": 0.3, "epochs": 50})
    runs.write_files(load_workload(workload).workload)
    job = subprocess.Popen(
        [sys.executable, "-m", "paceline", "bench", "run", workload, "-n", "3", "--out", "out", "--carrier", carrier],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    lines: list[dict[str, Any]] = []
    while job.poll() is None and len(lines) < 5:
        time.sleep(0.05)
        path = tmp_path / "out" / "1.jsonl"
        lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    os.kill(lines[0]["pid"], signal.SIGKILL)
    _, said = job.communicate(timeout=100)
    assert job.returncode in codes, said
    assert "killed" in said
    told = summary_in(tmp_path / "out")
    assert told["outcome"] == ("finding" if job.returncode == 90 else "failed")
    assert min(told["paceline"]["steps_per_rank"].values()) >= 2


def test_ones_own_launcher_starts_workers_and_a_rank_alone_in_trouble_is_a_finding(tmp_path: Path) -> None:
    workload = write_workload(tmp_path)
    mpiexec = find_mpiexec().command(3, clean_up=True)
    own = [*mpiexec, sys.executable, "-m", "paceline", "bench", "worker", workload]
    made = runs.paceline("run", "--out", "kept", "--", *own, "--generate", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    assert json.loads((tmp_path / "data" / "manifest.json").read_text())["splits"]["train"]["num_files"] == 40
    done = runs.paceline("run", "--", *own, "--out", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert summary_in(tmp_path / "out")["paceline"]["samples_read"] == 36
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "2.jsonl").symlink_to("/dev/full")
    full = runs.paceline("run", "--", *own, "--out", "full", cwd=tmp_path)
    assert full.returncode == 90
    assert "No space left on device" in full.stderr


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """A server of the S3 API in a process of its own."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", f"{port}"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    url, deadline = f"http://127.0.0.1:{port}", time.monotonic() + 60
    try:
        while True:
            try:
                request = urllib.request.Request(f"{url}/bucket", method="PUT")  # makes the bucket
                with urllib.request.urlopen(request, timeout=5):
                    break
            except OSError:
                assert time.monotonic() < deadline
                time.sleep(0.1)
        yield url
    finally:
        server.terminate()
        server.wait()


def test_a_bucket_is_filled_and_read_like_a_folder(tmp_path: Path, endpoint: str) -> None:
    options = {"endpoint_url": endpoint, "access_key_id": "me", "secret_access_key": "hush", "region": "us-east-1"}
    storage = {"storage_type": "s3", "storage_root": "bucket", "storage_options": options}
    data = {"data_folder": "some/data", "num_files_train": 12, "num_samples_per_file": 2, "format": "tfrecord"}
    reader = {"read_threads": 1, "verify": True}
    flow, saved = {"checkpoint": True}, {"checkpoint_folder": "some/checkpoints"}
    workload = write_workload(tmp_path, storage=storage, dataset=data, reader=reader, workflow=flow, checkpoint=saved)
    made = runs.paceline("bench", "generate", workload, "-n", "2", cwd=tmp_path)
    assert "written: s3://bucket/some/data/manifest.json" in made.stdout, made.stderr
    done = runs.paceline("bench", "run", workload, "-n", "3", "--out", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told = summary_in(tmp_path / "out")
    assert told["paceline"]["samples_read"] == 24
    assert told["metric"]["num_checkpoints"] == 1
    assert "hush" not in json.dumps(told)
    assert not (tmp_path / "some").exists()
    wrong = runs.paceline("bench", "run", workload, "-n", "2", "dataset.data_folder=other", cwd=tmp_path)
    assert (wrong.returncode, "does not hold this data set" in wrong.stderr) == (2, True)
