"""Ray Train with an unmodified driver, on a cluster of three hosts that runs already."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator, Mapping
from typing import Any

import psutil  # type: ignore[import-untyped]
import pytest
from tests.guard.hosts.cluster import Cluster, hosts_up, why_no_hosts
from tests.guard.hosts.host_jobs import nothing_is_left, start
from tests.guard.hosts.ray_jobs import BROKEN, DEADLINE, NUM_WORKERS, VARIABLES, check_finding, watched_driver

from paceline.guard.hosts.keys import derive_secret, read_secret

pytestmark = [
    pytest.mark.ray,
    pytest.mark.timeout(900),
    pytest.mark.skipif(bool(why_no_hosts()), reason=f"JOBS ON SEVERAL HOSTS ARE NOT TESTED: {why_no_hosts()}"),
]
_ENDING = ("RayTrainWorker", "host_watcher", "train_driver.py")  # in the commands of what must not outlive a run
_GRACE_SECONDS = 90.0  # a worker that Ray starts when the job has just ended has a watcher for half a minute


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three hosts, each with one worker of a cluster of Ray; all have the same home folder."""
    with hosts_up(tmp_path_factory.mktemp("cluster"), NUM_WORKERS, first_shares=False) as made:
        for number, name in enumerate(made.names, start=1):
            where = ["--address=10.77.0.1:6379"] if number > 1 else ["--head", "--port=6379", "--include-dashboard=0"]
            what = ["--num-cpus=1", "--object-store-memory=100000000", f"--node-ip-address=10.77.0.{number}"]
            started = start(made, name, ["ray", "start", *where, *what], _variables(made))
            said = started.communicate(timeout=DEADLINE)
            assert started.returncode == 0, said
        yield made


@pytest.fixture(autouse=True)
def nothing_is_left_behind(cluster: Cluster) -> Iterator[None]:
    """Ray keeps processes for other jobs. Those of this one must be gone, and all files of ours."""
    yield
    nothing_is_left(cluster)
    deadline = time.monotonic() + _GRACE_SECONDS
    while (left := _left()) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left


def _left() -> list[str]:
    left = []
    for process in psutil.Process().children(recursive=True):
        try:
            command = " ".join(process.cmdline())
        except (psutil.NoSuchProcess, psutil.ZombieProcess):
            continue  # it has ended in the meantime, as it should
        if any(word in command for word in _ENDING):
            left.append(command)
    return left


def _variables(cluster: Cluster) -> dict[str, str]:
    return {**VARIABLES, "HOME": str(cluster.folder)}


def _run(
    cluster: Cluster, problem: str, variables: Mapping[str, str] | None = None
) -> tuple[subprocess.CompletedProcess[str], Any]:
    """Run a driver on the first host."""
    told = cluster.folder / "told.json"
    told.unlink(missing_ok=True)
    command = watched_driver(problem, cluster.folder, told)
    job = start(cluster, "n1", command, {**_variables(cluster), **(variables or {})})
    try:
        output, errors = job.communicate(timeout=DEADLINE)
    finally:
        job.kill()
    done = subprocess.CompletedProcess(job.args, job.returncode, output, errors)
    return done, json.loads(told.read_text())["finding"]


def test_a_correct_job_ends_as_it_would_bare_and_shows_no_key(cluster: Cluster) -> None:
    done, finding = _run(cluster, "correct")
    assert (done.returncode, finding) == (0, None), done.stderr
    assert done.stderr.count("paceline:") == 1, done.stderr
    assert "paceline: watching other hosts through 10.77.0.1:" in done.stderr
    key = (cluster.folder / ".config" / "paceline" / "key").read_text().strip()
    (shown,) = [line for line in done.stdout.splitlines() if line.startswith("runtime environment:")]
    job = shown.partition("'PACELINE_JOB': '")[2].partition("'")[0]
    assert job.startswith("ray ")
    assert key not in shown
    assert derive_secret(read_secret(key), job).hex() not in shown


@pytest.mark.parametrize("problem", BROKEN)
def test_a_rank_out_of_line_is_named_with_its_line(problem: str, cluster: Cluster) -> None:
    done, finding = _run(cluster, problem)
    assert done.returncode == 90, done.stderr
    check_finding(finding, problem)
    hosts = [host for group in finding["groups"] for host in group["hosts"]]
    assert sorted(hosts) == ["n1", "n2", "n3"], finding


def test_workers_that_ray_starts_again_are_ranks_of_a_new_world(cluster: Cluster) -> None:
    done, finding = _run(cluster, "restarted")
    assert (done.returncode, finding) == (0, None), done.stderr
    assert (cluster.folder / "restarted").exists()


def test_ranks_of_hosts_with_another_key_are_told_to_be_unseen_and_not_judged(cluster: Cluster) -> None:
    """The driver alone has this key; Ray does not hand it on."""
    done, finding = _run(cluster, "slow", {"PACELINE_KEY": "ab" * 32})
    assert (done.returncode, finding) == (0, None), done.stderr
    assert "the driver came to its end" in done.stdout
    assert "of 3 are not seen from here, so nobody notices if they fail or wait" in done.stderr
    assert "has it paceline[hosts] and the same key, and does it reach 10.77.0.1:" in done.stderr
    assert "ab" * 32 not in done.stdout + done.stderr
