"""Jobs on the hosts of a cluster: how they are started, what they told, and that they leave nothing behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import pytest
from tests.guard.hosts.cluster import Cluster, why_no_hosts

DEADLINE = 300.0
ON_HOSTS = [
    pytest.mark.hosts,
    pytest.mark.timeout(600),
    pytest.mark.skipif(bool(why_no_hosts()), reason=f"JOBS ON SEVERAL HOSTS ARE NOT TESTED: {why_no_hosts()}"),
]
_BIN = Path(sys.executable).parent


def environment() -> dict[str, str]:
    """Return the variables of a job."""
    return {**os.environ, "PATH": f"{_BIN}:{os.environ['PATH']}", "GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1"}


def on_hosts(cluster: Cluster, *options: str) -> list[str]:
    """Return how MPICH starts two ranks of a program on each of three hosts."""
    shell = ["-launcher", "rsh", "-launcher-exec", str(cluster.remote_shell)]
    return ["mpiexec", *shell, "-hosts", "n1,n2,n3", "-n", "6", "-ppn", "2", *options]


def mpi(cluster: Cluster, kind: str, seconds: float | str, *options: str) -> list[str]:
    """Return the command of a job of MPICH with two ranks on each of three hosts."""
    return [*on_hosts(cluster, *options), "python", "mpi.py", kind, str(seconds)]


def start(
    cluster: Cluster,
    host: str,
    command: Sequence[str],
    variables: Mapping[str, str] | None = None,
    *,
    errors: IO[str] | int = subprocess.PIPE,
) -> subprocess.Popen[str]:
    """Start a command on a host; a key that it makes is not that of who runs the tests."""
    own = {"HOME": str(cluster.folder)}
    return subprocess.Popen(
        cluster.on(host, command), env=environment() | own | dict(variables or {}), cwd=cluster.folder, text=True,
        stdout=subprocess.PIPE, stderr=errors,
    )  # fmt: skip


def start_watched(
    cluster: Cluster, command: Sequence[str], errors: IO[str] | int = subprocess.PIPE
) -> subprocess.Popen[str]:
    """Start a job on the first host, watched."""
    told = cluster.folder / "told.json"
    told.unlink(missing_ok=True)
    return start(cluster, "n1", ["paceline", "run", "--json", str(told), "--", *command], errors=errors)


def run_watched(cluster: Cluster, command: Sequence[str]) -> tuple[subprocess.CompletedProcess[str], Any]:
    """Run a job from the first host, watched, to its end; return how it ended, and the finding."""
    return end_watched(cluster, start_watched(cluster, command))


def end_watched(cluster: Cluster, job: subprocess.Popen[str]) -> tuple[subprocess.CompletedProcess[str], Any]:
    """Wait for the end of a watched job; return how it ended, and the finding."""
    told = cluster.folder / "told.json"
    try:
        output, errors = job.communicate(timeout=DEADLINE)
    finally:
        job.kill()
    done = subprocess.CompletedProcess(job.args, job.returncode, output, errors)
    return done, json.loads(told.read_text())["finding"] if told.exists() else None


def nothing_is_left(cluster: Cluster) -> None:
    """Watchers have gone, and have removed their folders and what MPI left."""
    deadline = time.monotonic() + 60
    left = ""
    while time.monotonic() < deadline:
        lists = [subprocess.run(cluster.on(name, ["ls", "/dev/shm"]), capture_output=True, text=True, check=True).stdout
                 for name in cluster.names]  # fmt: skip
        left = "".join(lists)
        if not left:
            return
        time.sleep(0.2)
    raise AssertionError(f"in shared memory is left: {left}")
