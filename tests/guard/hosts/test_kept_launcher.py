"""The head of `paceline run` on several hosts is killed: the launcher goes on, and another head judges."""

from __future__ import annotations

import fcntl
import os
import pty
import shutil
import signal
import subprocess
import sys
import termios
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest
from tests.helpers.run_in_progress import folder_of_run

from paceline.guard.run.stopping_job import ForwardedSignals
from paceline.guard.shared_memory.ring import judge_lives
from paceline.launch.leftovers import remove_leftovers, shared_files_now

pytestmark = pytest.mark.programs  # real jobs, one after the other
_DEADLINE = 120.0
# the role is given: a real one opens a port only for a command that names other hosts
_RUN = """
import sys
from paceline.cli import main
from paceline.guard.hosts.keys import new_secret
from paceline.guard.hosts.link import listen
from paceline.guard.run import watched_run as runs
from paceline.guard.run.several_hosts.host_role import HeadRole

def role(command, options):
    listening = listen("127.0.0.1")
    return HeadRole(command=command, listening=listening, secret=new_secret(),
                    address=f"127.0.0.1:{listening.getsockname()[1]}", owns_hosts=True)

runs.host_role = role
if "dies at the end" in sys.argv:
    import os
    from paceline.guard.run.several_hosts.kept_launcher import KeptLauncher
    end_all = KeptLauncher.end_all
    KeptLauncher.end_all = lambda *arguments: (end_all(*arguments), os.kill(os.getpid(), 9))
sys.exit(main())
"""
_RANKS = """
    import sys, time
    from pathlib import Path
    from mpi4py import MPI
    world, here = MPI.COMM_WORLD, Path(sys.argv[1])
    (here / f"here.{world.rank}").touch()
    while not (here / "go").exists():
        time.sleep(0.01)
    if sys.argv[2] in ("apart", "dies at the end") and world.rank == 1:
        world.bcast(None)
    world.barrier()
    sys.exit(7 if sys.argv[2] == "failing" else 0)
"""


class _Run:
    """A watched job whose ranks wait for a word."""

    def __init__(self, folder: Path, kind: str, terminal: int | None = None) -> None:
        self._folder, self._errors, self.shared_files = folder, folder / "errors", shared_files_now()
        script = folder / "ranks.py"
        script.write_text(textwrap.dedent(_RANKS))
        words = ["run", "-n", "2", "--", str(script), str(folder), kind]
        with self._errors.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-c", _RUN, *words], cwd=folder, stdin=terminal, stderr=errors, start_new_session=True,
                preexec_fn=lambda: _prepare(has_terminal=terminal is not None),  # noqa: PLW1509
            )  # fmt: skip
        self.until(lambda: len(list(folder.glob("here.*"))) == 2)
        self.memory = folder_of_run(self.process.pid)

    def said(self) -> str:
        return self._errors.read_text()

    def until(self, is_so: Callable[[], object]) -> None:
        deadline = time.monotonic() + _DEADLINE
        while not is_so():
            assert time.monotonic() < deadline, f"it never came to that: {self.said()}"
            time.sleep(0.01)

    def head(self) -> int:
        return int((self.memory / "judge").read_text().split()[0])

    def kill_head(self) -> None:
        self.until(lambda: self.head() != self.process.pid)
        killed = self.head()
        os.kill(killed, signal.SIGKILL)
        assert judge_lives(self.memory)  # ranks that have stopped do not go on
        self.until(lambda: not (self.memory / "judge").exists() or self.head() != killed)

    def go(self) -> int:
        (self._folder / "go").touch()
        return self.process.wait(_DEADLINE)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


def _prepare(*, has_terminal: bool) -> None:
    """Let a process hear of Ctrl-C and of a terminal that hangs up, but not how children end, as some services do.

    Its input becomes its terminal.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    if has_terminal:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@pytest.fixture
def run(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[_Run]:
    with closing(_Run(tmp_path, request.param)) as made:
        yield made


@pytest.mark.parametrize("run", ["apart"], indirect=True)
def test_a_head_that_is_killed_is_started_again_and_names_the_ranks(run: _Run) -> None:
    run.kill_head()
    run.kill_head()
    assert run.go() == 90
    said = run.said()
    assert said.count("was killed by SIGKILL; it is started again, and knows everything in a moment") == 2, said
    assert "only rank 1 makes the bcast at ranks.py:10" in said, said
    assert "records: paceline-out/" in said
    assert not run.memory.exists()


@pytest.mark.parametrize("run", ["dies at the end"], indirect=True)
def test_a_head_that_is_killed_while_it_ends_the_job_is_not_started_again(run: _Run) -> None:
    """Another one would take the ranks that were ended for ranks that have failed."""
    run.until(lambda: run.head() != run.process.pid)
    assert run.go() == 137
    assert run.said().splitlines() == ["paceline: the process that judges this job was killed while it ended the job"]
    assert not run.memory.exists()


@pytest.mark.parametrize("run", ["failing"], indirect=True)
def test_a_job_ends_as_bare_whatever_becomes_of_its_heads(run: _Run) -> None:
    for _ in range(4):
        run.kill_head()
    run.until(lambda: "for the 4th time: the job goes on, and nobody notices if it hangs" in run.said())
    assert not judge_lives(run.memory)
    assert run.go() == 7, run.said()
    assert not run.memory.exists()


@pytest.mark.parametrize("run", ["right"], indirect=True)
@pytest.mark.parametrize(("number", "to_group"), [(signal.SIGTERM, False), (signal.SIGINT, True)])
def test_a_signal_to_the_keeper_is_for_the_job(run: _Run, number: signal.Signals, *, to_group: bool) -> None:
    run.kill_head()
    os.kill(-run.process.pid if to_group else run.process.pid, number)
    assert run.process.wait(_DEADLINE) != 0  # the code is the launcher's own
    assert f"ended by {number.name}" in run.said()
    assert not run.memory.exists()


def test_a_terminal_that_hangs_up_ends_the_job(tmp_path: Path) -> None:
    """The kernel tells the keeper alone, which leads the session."""
    ours, theirs = pty.openpty()
    with closing(_Run(tmp_path, "right", theirs)) as run:
        os.close(theirs)
        run.until(lambda: run.head() != run.process.pid)
        os.close(ours)
        assert run.process.wait(_DEADLINE) != 0
        assert "ended by SIGHUP" in run.said()
        assert not run.memory.exists()


@pytest.mark.parametrize("run", ["right"], indirect=True)
def test_a_keeper_that_is_killed_takes_all_with_it(run: _Run) -> None:
    run.until(lambda: run.head() != run.process.pid)
    family = [psutil.Process(run.head()), *psutil.Process(run.process.pid).children(recursive=True)]
    run.process.kill()
    _, left = psutil.wait_procs(family, timeout=_DEADLINE)
    assert not left
    shutil.rmtree(run.memory)  # as the next run does
    remove_leftovers(run.shared_files)


def test_a_signal_that_comes_twice_at_once_was_sent_once(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("paceline.guard.run.stopping_job.time.monotonic", lambda: now[0])
    signals = ForwardedSignals()
    for number, at in ((signal.SIGTERM, 100.0), (signal.SIGTERM, 100.01)):
        now[0] = at
        signals.note(number)
    assert (signals.received, signals.is_repeated) == (signal.SIGTERM, False)
    now[0] = 102.0
    signals.note(signal.SIGINT)
    assert (signals.received, signals.is_repeated) == (signal.SIGTERM, True)
