"""Real jobs on three hosts, looked at while they move: by --live, from the head's host, and from another host."""

from __future__ import annotations

import os
import re
import secrets
import select
import subprocess
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from tests.guard.hosts.cluster import Cluster
from tests.guard.hosts.host_jobs import DEADLINE, ON_HOSTS, nothing_is_left, on_hosts, start

pytestmark = ON_HOSTS
_EVERY = ["--every", "0.5"]
# Ranks go on until the test says so. Rank 5, on the last host, is late; nobody waits for as long as a report takes.
_STEPS = """
    import os, time
    from mpi4py import MPI
    world = MPI.COMM_WORLD
    while True:
        time.sleep(0.02 + 0.02 * (world.rank == 5))
        world.Barrier()
        if world.bcast(os.path.exists("end")):
            break
    if world.rank == 5 and os.path.exists("part"):
        world.bcast(1)
    world.Barrier()
    """


@dataclass
class Reading:
    """What a process says on its standard error."""

    process: subprocess.Popen[str]
    said: str = ""

    def until(self, is_so: Callable[[str], object]) -> str:
        """Read until a line is there that is so; return it."""
        assert self.process.stderr is not None
        deadline = time.monotonic() + DEADLINE
        while not (
            found := [line for line in self.said.splitlines(keepends=True) if line[-1:] == "\n" and is_so(line)]
        ):
            assert time.monotonic() < deadline, self.said
            assert self.process.poll() is None, self.said
            if select.select([self.process.stderr], [], [], 0.5)[0]:
                self.said += os.read(self.process.stderr.fileno(), 65_536).decode()
        return found[-1]

    def end(self) -> int:
        """Read to the end; return the exit code."""
        _, rest = self.process.communicate(timeout=DEADLINE)
        self.said += rest
        return self.process.returncode


@contextmanager
def _reading(process: subprocess.Popen[str]) -> Iterator[Reading]:
    try:
        yield Reading(process)
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdout, process.stderr):  # not to their end: what it has started may still hold them
            assert pipe is not None
            pipe.close()


def _shows_steps_of_all(line: str) -> bool:
    """Say whether a line shows that ranks of all hosts move, and who is late."""
    rates = re.search(r"; step (\d+), ([\d.]+)(-[\d.]+)? steps/s at steps.py:\d+;", line)
    return rates is not None and float(rates[2]) > 1.0 and "rank 5 (n3) is the last to reach" in line


def _steps(cluster: Cluster) -> list[str]:
    for name in ("end", "part"):
        (cluster.folder / name).unlink(missing_ok=True)
    (cluster.folder / "steps.py").write_text(textwrap.dedent(_STEPS))
    return [*on_hosts(cluster), "python", "steps.py"]


def test_live_shows_ranks_of_other_hosts_as_they_move(cluster: Cluster) -> None:
    with _reading(start(cluster, "n1", ["paceline", "run", "--live", *_EVERY, "--", *_steps(cluster)])) as run:
        run.until(_shows_steps_of_all)
        (cluster.folder / "end").touch()
        assert run.end() == 0, run.said
    nothing_is_left(cluster)


@pytest.mark.parametrize("host", ["n1", "n2"])
def test_a_run_is_watched_from_any_host_with_the_key_and_its_finding_is_told_there(cluster: Cluster, host: str) -> None:
    """On n1 by the folder of the run, on n2 by its address; the run itself has no view."""
    command, key = _steps(cluster), secrets.token_hex(32)
    (cluster.folder / "part").touch()
    with _reading(start(cluster, "n1", ["paceline", "run", "--", *command], {"PACELINE_KEY": key})) as run:
        address = run.until(lambda line: "to look on: paceline watch" in line).split()[-1]
        where, variables = ([], {}) if host == "n1" else ([address], {"PACELINE_KEY": key})
        with _reading(start(cluster, host, ["paceline", "watch", *_EVERY, *where], variables)) as watch:
            watch.until(_shows_steps_of_all)
            assert run.process.poll() is None
            (cluster.folder / "end").touch()
            assert (watch.end(), run.end()) == (90, 90), watch.said + run.said
    for said in (watch.said, run.said):
        assert "rank 5 (n3)" in said
        assert "cause: rank-conditional-call" in said
        assert key not in said
    nothing_is_left(cluster)


def test_another_key_sees_nothing_and_harms_nobody(cluster: Cluster) -> None:
    command = _steps(cluster)
    with _reading(start(cluster, "n1", ["paceline", "run", "--", *command], {"PACELINE_KEY": "ab" * 32})) as run:
        address = run.until(lambda line: "to look on: paceline watch" in line).split()[-1]
        with _reading(start(cluster, "n3", ["paceline", "watch", address], {"PACELINE_KEY": "cd" * 32})) as watch:
            assert watch.end() == 2, watch.said
            assert "does not let this key in" in watch.said
        (cluster.folder / "end").touch()
        assert run.end() == 0, run.said
    nothing_is_left(cluster)
