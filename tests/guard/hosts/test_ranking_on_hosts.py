"""The ranking job on three hosts gives the figures of one process; killed there, it goes on with fewer hosts."""

from __future__ import annotations

import json
import secrets
from pathlib import Path

import pytest
from tests.examples.test_ranking import assert_same
from tests.guard.hosts.cluster import Cluster
from tests.guard.hosts.host_jobs import DEADLINE, ON_HOSTS, nothing_is_left, start

pytestmark = ON_HOSTS
_TRAIN = Path(__file__).parents[3] / "examples" / "ranking" / "train.py"
_JOB = (str(_TRAIN), "--users", "60", "--batch", "60", "--steps", "14", "--figures", "figures.json")
Figures = dict[str, list[float]]


def _figures(cluster: Cluster) -> Figures:
    told: Figures = json.loads((cluster.folder / "figures.json").read_text())
    assert len(told["losses"]) == 14
    return told


def _train(cluster: Cluster, num_hosts: int, ranks_per_host: int, *arguments: str) -> list[tuple[int, str]]:
    """Type one command on each host, as people do; return the code and the errors of each."""
    place = ["--nnodes", str(num_hosts), "--nproc-per-node", str(ranks_per_host)]
    where = ["--master-addr", "n1", "--master-port", "29471"]
    (cluster.folder / "figures.json").unlink(missing_ok=True)
    key = {"PACELINE_KEY": secrets.token_hex(32)}
    nodes = [
        start(
            cluster, name,
            ["paceline", "run", "--", "torchrun", *place, "--node-rank", str(number), *where, *_JOB, *arguments], key,
        )
        for number, name in enumerate(cluster.names[:num_hosts])
    ]  # fmt: skip
    try:
        errors = [node.communicate(timeout=DEADLINE)[1] for node in nodes]
    finally:
        for node in nodes:
            node.kill()
    return [(node.returncode, text) for node, text in zip(nodes, errors, strict=True)]


@pytest.fixture(scope="module")
def of_one_process(cluster: Cluster) -> Figures:
    job = start(cluster, "n1", ["python", *_JOB])
    _, errors = job.communicate(timeout=DEADLINE)
    assert job.returncode == 0, errors
    return _figures(cluster)


def test_figures_on_three_hosts_are_those_of_one_process(cluster: Cluster, of_one_process: Figures) -> None:
    ended = _train(cluster, 3, 2)
    assert [code for code, _ in ended] == [0, 0, 0], ended
    assert_same(_figures(cluster), of_one_process)
    nothing_is_left(cluster)


def test_a_job_that_was_killed_on_three_hosts_goes_on_with_two(cluster: Cluster, of_one_process: Figures) -> None:
    saved = ("--checkpoint", "state.pt")
    ended = _train(cluster, 3, 1, *saved, "--save-every", "4", "--kill-after", "6")
    assert [code for code, _ in ended] == [90, 90, 90], ended
    assert all("rank 2 was killed (by SIGKILL)" in text for _, text in ended), ended
    ended = _train(cluster, 2, 1, *saved, "--resume")
    assert [code for code, _ in ended] == [0, 0], ended
    assert_same(_figures(cluster), of_one_process)
    nothing_is_left(cluster)
