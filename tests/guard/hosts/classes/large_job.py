"""A head and watchers of three hosts over real sockets in one process, with the ranks of a job that is called large."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from paceline.guard.hosts.classes import told_states
from paceline.guard.hosts.classes.reduced_job import ReducedJob
from paceline.guard.hosts.head_rings import HeadRings
from paceline.guard.hosts.keys import new_secret
from paceline.guard.hosts.link import HeadLink, listen
from paceline.guard.hosts.watching import Watching
from paceline.guard.judge.judge import Judge
from paceline.guard.observe.local_rings import LocalRings
from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.rank.communicator import Communicator
from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.layout import NOTHING
from paceline.guard.shared_memory.operations import BY_NAME
from paceline.guard.verdict.finding import Finding
from paceline.process.procfs import start_time

ALL_REDUCE, BARRIER, BROADCAST = (BY_NAME[f"torch.{name}"].code for name in ("all_reduce", "barrier", "broadcast"))
NUM_HOSTS, RANKS_PER_HOST = 3, 5
NUM = NUM_HOSTS * RANKS_PER_HOST
DEADLINE = 100.0


@dataclass
class Rank:
    """A rank that writes its ring."""

    recorder: Recorder
    world: Communicator

    def call(self, operation: int, root: int = NOTHING) -> int:
        return self.recorder.begin_collective(self.world, operation, root, depth=1)

    def leave(self, number: int) -> None:
        self.recorder.unblock(number)


def make_rank(folder: Path, number: int, size: int = NUM, pid: int = 0) -> Rank:
    recorder = Recorder(folder, f"abc.0.{number}", rank=number, world_size=size)
    if pid:
        recorder.ring.words[layout.PID], recorder.ring.words[layout.START_TIME] = pid, start_time(pid)
    world = recorder.communicator("torch-world-1", "WORLD", range(size), number)
    assert world is not None
    return Rank(recorder, world)


@dataclass
class LargeJob:
    """A head, and watchers of three hosts. The processes of ranks sleep: this process writes their rings."""

    folders: list[Path]
    pids: list[int]
    head: HeadRings
    watchers: list[Watching]

    def ranks(self) -> list[Rank]:
        return [
            make_rank(self.folders[number // RANKS_PER_HOST], number, pid=self.pids[number % RANKS_PER_HOST])
            for number in range(NUM)
        ]

    def turn(self) -> None:
        for watcher in self.watchers:
            watcher.wait(0.0)
            watcher.look()

    def until(self, is_so: Callable[[], object]) -> None:
        deadline = time.monotonic() + DEADLINE
        while not is_so():
            assert time.monotonic() < deadline, "it never came to that"
            self.turn()
            self.head.wait(0.002)

    def finding(self, judge: Judge) -> Finding:
        found: list[Finding] = []

        def looks() -> bool:
            finding = self.head.confirmed(judge.look)
            found.extend([finding] if finding is not None else [])
            return bool(found)

        self.until(looks)
        return found[0]

    def until_all_stand_still(self) -> None:
        """Let the head hear that no rank moves: a finding about some of them would call the others running."""
        self.until(lambda: self.head.jobs() and all(table._digests.all() for table in self.head._large.tables.values()))

    def followed(self) -> list[int]:
        return [rank for job in self.head.jobs() if isinstance(job, ReducedJob) for rank in job.followed]


@pytest.fixture
def pids() -> Iterator[list[int]]:
    processes = [subprocess.Popen(["sleep", "1000"]) for _ in range(RANKS_PER_HOST)]
    yield [process.pid for process in processes]
    for process in processes:
        process.kill()
        process.wait()


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pids: list[int]) -> Iterator[LargeJob]:
    monkeypatch.setattr(told_states, "LARGE", 4)
    folders = [tmp_path / f"n{number}" for number in range(NUM_HOSTS)]
    head_folder = tmp_path / "head"
    for folder in (*folders, head_folder):
        folder.mkdir()
    secret, listening = new_secret(), listen("127.0.0.1")
    address = f"127.0.0.1:{listening.getsockname()[1]}"
    head = HeadRings(head_folder, HeadLink(listening, secret), address)
    rings = [LocalRings(folder) for folder in folders]
    made = LargeJob(folders, pids, head, [Watching(each, [address], secret) for each in rings])
    real = HeadRings.wait

    def wait(self: HeadRings, seconds: float) -> None:
        made.turn()  # watchers look whenever the head waits for them
        real(self, min(seconds, 0.005))

    monkeypatch.setattr(HeadRings, "wait", wait)
    yield made
    for watcher in made.watchers:
        watcher.close()
    head.close()
    for each in rings:
        each.close()
