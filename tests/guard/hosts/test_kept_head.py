"""The head of `enable()` is killed: its keeper starts it again, and it judges all hosts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.guard.hosts.classes import large_job as large

from paceline.guard.hosts.keys import new_secret
from paceline.guard.hosts.link import listen
from paceline.guard.hosts.watching import Watching
from paceline.guard.observe.local_rings import LocalRings
from paceline.guard.shared_memory.ring import judge_lives

pids = large.pids  # a fixture
_DEADLINE = 60.0
# the role is given: the port of a real one follows from the key of the user
_HEAD = """
import os, sys
from pathlib import Path
from paceline.guard.hosts.link import listen
from paceline.guard.run import embedded_judge
from paceline.guard.run.several_hosts.host_role import HeadRole
from paceline.guard.run.watch_options import WatchOptions
folder, port, out = Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
def role(options):
    return HeadRole(command=(), listening=listen("127.0.0.1", port), secret=bytes.fromhex(sys.stdin.readline()),
                    address=f"127.0.0.1:{port}", owns_hosts=False)
embedded_judge.enabled_role = role
embedded_judge.shared_files_now = lambda: set()
embedded_judge.remove_leftovers = lambda before: None
say = lambda text: print(text, flush=True)
options = WatchOptions(out=out, on_unseen=say, on_finding=lambda finding: say(finding.summary))
embedded_judge.judge_ranks(folder, os.getppid(), options)
"""


class _Job:
    """A head in a process of its own with rank 0, and two watchers here; the processes of ranks sleep."""

    def __init__(self, tmp_path: Path, pids: list[int]) -> None:
        self.folders = [tmp_path / f"n{number}" for number in range(3)]
        for folder in self.folders:
            folder.mkdir(mode=0o700)
        self.ranks = [large.make_rank(self.folders[number], number, 3, pids[number]) for number in range(3)]
        listening, secret = listen("127.0.0.1"), new_secret()
        port = listening.getsockname()[1]
        listening.close()
        command = [sys.executable, "-c", _HEAD, str(self.folders[0]), str(port), str(tmp_path / "out")]
        self.keeper = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.keeper.stdin is not None
        self.keeper.stdin.write(f"{secret.hex()}\n")
        self.keeper.stdin.close()
        self.rings = [LocalRings(folder) for folder in self.folders[1:]]
        self.watchers = [Watching(rings, [f"127.0.0.1:{port}"], secret) for rings in self.rings]

    def head(self) -> int:
        """Return the process that judges."""
        try:
            return int((self.folders[0] / "judge").read_text().split()[0])
        except (OSError, IndexError):
            return 0

    def turn(self) -> None:
        for watcher in self.watchers:
            watcher.wait(0.005)
            watcher.look()

    def until(self, is_so: Callable[[], object]) -> None:
        deadline = time.monotonic() + _DEADLINE
        while not is_so():
            assert time.monotonic() < deadline, "it never came to that"
            self.turn()

    def kill_head(self) -> None:
        """Kill the head, once all hosts have told it everything; wait until there is another."""
        self.until(lambda: self.head() not in (0, self.keeper.pid) and all(one._is_known for one in self.watchers))
        killed = self.head()
        os.kill(killed, signal.SIGKILL)
        assert judge_lives(self.folders[0])  # ranks that have stopped do not go on
        self.until(lambda: self.head() not in (0, killed) or self.keeper.poll() is not None)

    def close(self) -> None:
        self.keeper.kill()
        self.keeper.wait()
        assert self.keeper.stdout is not None
        self.keeper.stdout.close()
        for watcher in self.watchers:
            watcher.close()
        for rings in self.rings:
            rings.close()


@pytest.fixture
def job(tmp_path: Path, pids: list[int]) -> Iterator[_Job]:
    with closing(_Job(tmp_path, pids)) as made:
        yield made


def test_a_head_that_is_killed_is_started_again_and_names_the_rank(job: _Job) -> None:
    job.kill_head()
    for number, rank in enumerate(job.ranks):
        rank.call(large.BARRIER if number == 2 else large.ALL_REDUCE)
    job.until(lambda: job.keeper.poll() is not None)
    assert job.keeper.stdout is not None
    said = job.keeper.stdout.read().splitlines()
    assert said[0].endswith("was killed by SIGKILL; it is started again, and knows everything in a moment")
    assert said[1].startswith("rank 2 fell out of line: ranks 0-1 call all_reduce"), said
    assert all(watcher.has_ended for watcher in job.watchers)
    assert (len(said), job.keeper.returncode, job.folders[0].exists()) == (2, 0, False)


def test_a_head_that_is_killed_again_and_again_leaves_the_job_alone(job: _Job) -> None:
    for _ in range(4):
        job.kill_head()
    job.until(lambda: job.keeper.poll() is not None)
    assert job.keeper.stdout is not None
    *_, last = job.keeper.stdout.read().splitlines()
    assert last.endswith("for the 4th time: the job goes on, and nobody notices if it hangs")
    assert not judge_lives(job.folders[0])
    assert not any(watcher.has_ended for watcher in job.watchers)


def test_a_head_that_is_told_to_end_is_not_started_again(job: _Job) -> None:
    job.until(lambda: job.head() not in (0, job.keeper.pid))
    os.kill(job.head(), signal.SIGTERM)
    job.until(lambda: job.keeper.poll() is not None)
    assert (job.keeper.returncode, job.folders[0].exists()) == (143, False)
