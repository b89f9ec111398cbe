"""A head and watchers over real sockets in one process, with a rank each."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from paceline.guard.hosts.head_rings import HeadRings
from paceline.guard.hosts.keys import new_secret
from paceline.guard.hosts.link import HeadLink, listen
from paceline.guard.hosts.watching import Watching
from paceline.guard.judge.judge import Judge
from paceline.guard.observe.local_rings import LocalRings
from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.rank.communicator import Communicator
from paceline.guard.shared_memory.operations import BY_NAME
from paceline.guard.verdict.finding import Finding

ALL_REDUCE, BARRIER = BY_NAME["torch.all_reduce"].code, BY_NAME["torch.barrier"].code
DEADLINE = 100.0
WORLD = "abc"  # as a hash is written


@dataclass
class LinkedRank:
    recorder: Recorder
    world: Communicator

    def call(self, operation: int) -> int:
        return self.recorder.begin_collective(self.world, operation, depth=1)


@dataclass
class LinkedJob:
    """A head and some watchers; each has a rank of its own, and all ranks are this process."""

    folders: list[Path]
    secret: bytes
    head: HeadRings
    rings: list[LocalRings]
    watchers: list[Watching]

    def rank(self, number: int, *, size: int = 3) -> LinkedRank:
        recorder = Recorder(self.folders[number], f"{WORLD}.0.{number}", rank=number, world_size=size)
        world = recorder.communicator("torch-world-1", "WORLD", range(size), number)
        assert world is not None
        return LinkedRank(recorder, world)

    def turn(self) -> None:
        """Let everybody look once."""
        for watcher in self.watchers:
            watcher.wait(0.002)
            watcher.look()
        self.head.wait(0.002)
        self.head.jobs()

    def until(self, is_so: Callable[[], object]) -> None:
        """Go on until something is so."""
        deadline = time.monotonic() + DEADLINE
        while not is_so():
            assert time.monotonic() < deadline, "it never came to that"
            self.turn()

    def num_seen(self) -> int:
        return sum(len(job.ranks) for job in self.head.jobs())


@contextmanager
def linked_job(folder: Path, num_watchers: int = 2) -> Iterator[LinkedJob]:
    """Begin a job whose hosts have a folder each, and end it."""
    folders = [folder / name for name in ("head", *(f"host{number}" for number in range(1, num_watchers + 1)))]
    for each in folders:
        each.mkdir()
    secret, listening = new_secret(), listen("127.0.0.1")
    address = f"127.0.0.1:{listening.getsockname()[1]}"
    head = HeadRings(folders[0], HeadLink(listening, secret), address)
    rings = [LocalRings(each) for each in folders[1:]]
    watchers = [Watching(each, [address], secret) for each in rings]
    yield LinkedJob(folders, secret, head, rings, watchers)
    for watcher in watchers:
        watcher.close()
    head.close()
    for own in rings:
        own.close()


def let_watchers_look(job: LinkedJob, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have watchers look whenever the head waits for them."""
    real = HeadRings.wait

    def wait(self: HeadRings, seconds: float) -> None:
        for watcher in job.watchers:
            watcher.wait(0.0)
            watcher.look()
        real(self, min(seconds, 0.005))

    monkeypatch.setattr(HeadRings, "wait", wait)


def settled(job: LinkedJob, judge: Judge, monkeypatch: pytest.MonkeyPatch) -> Finding:
    """Return what the head finds."""
    let_watchers_look(job, monkeypatch)
    found: list[Finding] = []

    def looks() -> bool:
        finding = job.head.confirmed(judge.look)
        found.extend([finding] if finding is not None else [])
        return bool(found)

    job.until(looks)
    return found[0]
