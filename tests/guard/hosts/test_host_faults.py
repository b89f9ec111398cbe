"""Real jobs on three hosts while something fails between a host and the head: a right job ends as it would bare, and
of a broken one nobody is named before all are heard of again."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

import pytest
from tests.chaos.chaos import build_spoiled_calls
from tests.guard.hosts.cluster import Cluster
from tests.guard.hosts.host_jobs import (
    DEADLINE,
    ON_HOSTS,
    end_watched,
    mpi,
    nothing_is_left,
    run_watched,
    start_watched,
)
from tests.guard.hosts.host_programs import line_of

pytestmark = ON_HOSTS
_HOLD_SECONDS = 2.0  # for which nobody is named: without the fault it takes a tenth of that
_WATCHER = "$(cut -d' ' -f1 /dev/shm/paceline-run-*/judge)"  # of a host; on the first one it is the head


class _Job:
    """A job whose ranks wait for a word before they go on."""

    def __init__(self, cluster: Cluster, kind: str) -> None:
        self.cluster = cluster
        for path in [*cluster.folder.glob("here.*"), *cluster.folder.glob("gone.*"), cluster.folder / "go"]:
            path.unlink(missing_ok=True)
        self._errors = cluster.folder / "errors"
        with self._errors.open("w") as errors:
            self.process = start_watched(cluster, mpi(cluster, kind, "go"), errors=errors)
        self.until(lambda: "watching other hosts through" in self.said())
        self.address = self.said().partition("through ")[2].split()[0]
        self.until(lambda: len(list(cluster.folder.glob("here.*"))) == 6)
        self.until_all_are_known()

    def said(self) -> str:
        return self._errors.read_text()

    def on(self, host: str, command: str) -> str:
        return subprocess.run(
            self.cluster.on(host, ["sh", "-c", command]), capture_output=True, text=True, check=True
        ).stdout

    def until(self, is_so: Callable[[], object]) -> None:
        deadline = time.monotonic() + DEADLINE
        while not is_so():
            assert time.monotonic() < deadline, f"it never came to that: {self.said()}"
            assert self.process.poll() is None, f"it has ended: {self.said()}"
            time.sleep(0.02)

    def until_all_are_known(self) -> None:
        self.until(lambda: int(self.on("n1", "ls /dev/shm/paceline-run-*/ | grep -c ^ring")) == 6)

    def go(self) -> None:
        (self.cluster.folder / "go").touch()
        self.until(lambda: len(list(self.cluster.folder.glob("gone.*"))) == 6)


@contextmanager
def _stopped(job: _Job, host: str) -> Iterator[None]:
    job.on(host, f"kill -STOP {_WATCHER}")
    try:
        yield
    finally:
        job.on(host, f"kill -CONT {_WATCHER}")
        job.process.send_signal(signal.SIGCONT)  # what has entered the host stops with what it has started there


def _fault(name: str, job: _Job, host: str) -> AbstractContextManager[None]:
    if name == "blackhole":
        return job.cluster.blackhole(host, job.address)
    return _stopped(job, host) if name == "stopped watcher" else job.cluster.unplugged(host)


@pytest.mark.parametrize("fault", ["blackhole", "stopped watcher"])
def test_a_correct_job_ends_as_it_would_bare_while_a_host_is_silent(cluster: Cluster, fault: str) -> None:
    job = _Job(cluster, "correct")
    with _fault(fault, job, "n2"):
        job.until(lambda: "n2 does not report" in job.said())
        (cluster.folder / "go").touch()
        done, finding = end_watched(cluster, job.process)
    assert (done.returncode, finding, done.stdout) == (0, None, "end\n" * 6), job.said()
    assert job.said().count("paceline:") == 2, job.said()  # where it listens, and who is silent
    nothing_is_left(cluster)


@pytest.mark.parametrize("fault", ["blackhole", "stopped watcher", "link down"])
def test_nobody_is_named_while_a_host_is_silent_and_the_right_one_afterwards(cluster: Cluster, fault: str) -> None:
    job = _Job(cluster, "mismatch")
    with _fault(fault, job, "n3"):
        job.until(lambda: "n3 does not report" in job.said())
        job.go()
        time.sleep(_HOLD_SECONDS)
        assert job.process.poll() is None, job.said()
        assert job.said().count("paceline:") == 2, job.said()
    done, finding = end_watched(cluster, job.process)
    assert (done.returncode, finding["cause"], finding["ranks"]) == (90, "rank-conditional-call", [5]), job.said()
    nothing_is_left(cluster)


def test_a_correct_job_goes_on_while_its_head_is_stopped(cluster: Cluster) -> None:
    """And the head finds everything that hosts have told meanwhile, once it goes on."""
    job = _Job(cluster, "correct")
    assert job.process.stdout is not None
    with _stopped(job, "n1"):
        (cluster.folder / "go").touch()
        printed = "".join(job.process.stdout.readline() for _ in range(6))
    done, finding = end_watched(cluster, job.process)
    assert (done.returncode, finding, printed) == (0, None, "end\n" * 6), job.said()
    assert job.said().count("paceline:") == 1, job.said()
    nothing_is_left(cluster)


# a launcher kills the others of a rank that was killed so quickly that it may look like the end of the whole job, which
# nobody has brought about: a crash is known for what it is however late the judge looks
@pytest.mark.parametrize("kind", ["correct", "mismatch", "crashes"])
def test_a_head_and_a_watcher_that_are_killed_are_started_again(cluster: Cluster, kind: str) -> None:
    job = _Job(cluster, kind)
    for number, host in enumerate(("n1", "n3"), 1):
        killed = job.on(host, f"echo {_WATCHER}")
        job.on(host, f"kill -KILL {killed}")
        job.until(partial(_is_started_again, job, host, killed, number))
        job.until_all_are_known()
    (cluster.folder / "go").touch()
    done, finding = end_watched(cluster, job.process)
    if kind == "correct":
        assert (done.returncode, finding, done.stdout) == (0, None, "end\n" * 6), job.said()
    else:
        assert finding is not None, job.said()
        assert (done.returncode, finding["ranks"]) == (90, [5]), job.said()
    nothing_is_left(cluster)


def _is_started_again(job: _Job, host: str, killed: str, number: int) -> bool:
    said = job.said().count("was killed by SIGKILL; it is started again")
    return said == number and job.on(host, f"echo {_WATCHER}") not in (killed, "\n")


def test_times_of_day_may_be_days_apart(cluster: Cluster) -> None:
    """Clocks that only go forward are so in any case: each host has its own, 100,000 seconds from the next."""
    library = build_spoiled_calls(cluster.folder)
    if library is None:
        pytest.skip("there is no compiler to make the library that changes the time of day")
    (cluster.folder / "shifted").touch()
    shift = f"LD_PRELOAD={library} CHAOS_CLOCK={cluster.folder}/shifted CHAOS_CLOCK_SECONDS=100000"
    *launcher, python, script, kind, seconds = mpi(cluster, "mismatch", 0.5)
    rank = f"test $(hostname) != n3 || export {shift}; exec {python} {script} {kind} {seconds}"
    done, finding = run_watched(cluster, [*launcher, "sh", "-c", rank])
    assert (done.returncode, finding["ranks"]) == (90, [5]), done.stderr
    (group,) = [group for group in finding["groups"] if group["ranks"] == [5]]
    assert "world.bcast" in line_of(Path(cluster.folder / "mpi.py"), group["site"])
