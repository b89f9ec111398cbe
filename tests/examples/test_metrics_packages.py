"""Metrics in the real packages: one job, all four exporters, and what each package's own reader finds."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from paceline.launch.ports import free_port

pytestmark = [pytest.mark.packages, pytest.mark.timeout(300)]

DEADLINE = 240.0
JOB = """
import os, time
import torch
from mpi4py import MPI
from paceline import Loader

class Rows:
    def __len__(self):
        return 1_000_003

    def __getitem__(self, sample):
        return {"length": torch.tensor(1.0 + sample % 7)}

comm = MPI.COMM_WORLD
with Loader(Rows(), batch_size=4, cost=lambda batch: batch["length"]) as loader:
    for batch in loader:
        if comm.rank == 1:
            time.sleep(0.02)
        comm.Barrier()
        if comm.bcast(os.path.exists("stop")):
            break
"""


class Collector(ThreadingHTTPServer):
    """What a collector of OpenTelemetry is to those who send."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Request)
        self.bodies: list[bytes] = []


class _Request(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        self.server.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def collector() -> Iterator[Collector]:
    with Collector() as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def scrape(port: int) -> dict[tuple[str, str], float]:
    from prometheus_client.parser import text_string_to_metric_families

    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as page:
        families = list(text_string_to_metric_families(page.read().decode()))
    assert all(family.type == "gauge" and family.documentation for family in families)
    return {
        (sample.name, sample.labels.get("rank", sample.labels.get("state", ""))): sample.value
        for family in families
        for sample in family.samples
    }


def wait_for_scrape(port: int, job: subprocess.Popen[str]) -> dict[tuple[str, str], float]:
    """Scrape until there is everything that a job of this kind has to show."""
    wanted = {("paceline_last_ratio", "1"), ("paceline_padding_ratio", ""), ("paceline_imbalance_before", ""),
              ("paceline_steps_per_second", "0"), ("paceline_data_waiting_ratio", "1")}  # fmt: skip
    deadline = time.monotonic() + DEADLINE
    found: dict[tuple[str, str], float] = {}
    while not (wanted <= found.keys() and found["paceline_last_ratio", "1"] > 0.5):
        assert job.poll() is None, job.communicate()
        assert time.monotonic() < deadline, found
        with suppress(ConnectionError, urllib.error.URLError):  # it is not served yet
            found = scrape(port)
        time.sleep(0.2)
    return found


def test_one_job_is_seen_in_all_four_packages(tmp_path: Path) -> None:
    for name in ("prometheus_client", "tensorboard", "wandb", "opentelemetry.sdk"):
        pytest.importorskip(name)
    (tmp_path / "job.py").write_text(JOB)
    port = free_port()
    paceline = (sys.executable, "-m", "paceline")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore", "WANDB_SILENT": "true"}
    with collector() as server:
        metrics = (
            f"prometheus:{port}",
            "tensorboard:events",
            f"opentelemetry:http://127.0.0.1:{server.server_port}/v1/metrics",
        )
        options = [word for each in metrics for word in ("--metrics", each)]
        with subprocess.Popen(
            [*paceline, "run", *options, "-n", "2", "job.py"], cwd=tmp_path, env=environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        ) as job:  # fmt: skip
            try:
                found = wait_for_scrape(port, job)
                watching = subprocess.Popen(
                    [*paceline, "watch", "--metrics", "wandb:.", str(tmp_path)], cwd=tmp_path, env=environment,
                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                )  # fmt: skip
                wait_for_file(tmp_path, "wandb/offline-run-*/*.wandb")
            finally:
                (tmp_path / "stop").touch()
            said, _ = job.communicate(timeout=DEADLINE)
        watched, _ = watching.communicate(timeout=DEADLINE)
    assert (job.returncode, watching.returncode) == (0, 0), said + watched
    assert "no more metrics" not in said + watched
    assert found["paceline_ranks", "absent"] == 0
    assert found["paceline_imbalance_before", ""] >= found["paceline_imbalance_after", ""] >= 1
    assert 0 < found["paceline_steps_per_second", "0"] < 60
    names = {name for name, _ in found}
    assert names_in_events(tmp_path / "events") == names_in_messages(server.bodies) == names
    (run,) = tmp_path.glob("wandb/offline-run-*/*.wandb")
    assert "paceline_steps" in names_in_offline_run(run)


def wait_for_file(folder: Path, pattern: str) -> None:
    deadline = time.monotonic() + DEADLINE
    while not any(path.stat().st_size > 1000 for path in folder.glob(pattern)):
        assert time.monotonic() < deadline
        time.sleep(0.2)


def names_in_events(folder: Path) -> set[str]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder))
    events.Reload()
    return {f"paceline_{tag.split('/')[1]}" for tag in events.Tags()["scalars"]}


def names_in_messages(bodies: list[bytes]) -> set[str]:
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

    messages = [ExportMetricsServiceRequest.FromString(body) for body in bodies]
    return {
        metric.name
        for message in messages
        for resource in message.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }


def names_in_offline_run(path: Path) -> set[str]:
    from wandb.proto.wandb_internal_pb2 import Record

    keys = [
        item.key or ".".join(item.nested_key) for data in logged(path) for item in Record.FromString(data).history.item
    ]
    return {f"paceline_{key.split('/')[1]}" if "/" in key else key for key in keys}


def logged(path: Path) -> Iterator[bytes]:
    """The records of a file of wandb, which is a log as LevelDB has it: blocks of 32 KiB, a header for each part."""
    content, block, header = path.read_bytes(), 32768, 7
    at, parts = header, b""  # the file's own header comes first
    while at + header <= len(content):
        left = block - at % block
        if left < header:
            at += left
            continue
        _, size, kind = struct.unpack_from("<IHB", content, at)
        if kind == 0:
            return  # nothing was written from here on
        parts += content[at + header : at + header + size]
        at += header + size
        if kind in (1, 4):  # whole, or the last part
            yield parts
            parts = b""
