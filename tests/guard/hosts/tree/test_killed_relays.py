"""Relays that are killed: watchers are processes of their own, and two of three hosts speak to the head."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from paceline.guard.hosts.head_rings import HeadRings
from paceline.guard.hosts.keys import new_secret
from paceline.guard.hosts.known_hosts import KnownHost
from paceline.guard.hosts.link import HeadLink, listen
from paceline.guard.hosts.tree import host_tree
from paceline.guard.judge.judge import Judge
from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.shared_memory.operations import BY_NAME
from paceline.guard.verdict.finding import Finding

pytestmark = pytest.mark.programs  # real jobs, one after the other
_ALL_REDUCE, _BARRIER = BY_NAME["torch.all_reduce"].code, BY_NAME["torch.barrier"].code
_NUM = 3
_DEADLINE = 100.0
_WATCHER = """
import sys
from pathlib import Path
from paceline.guard.hosts.watching import Watching
from paceline.guard.observe.local_rings import LocalRings
watching = Watching(LocalRings(Path(sys.argv[1])), [sys.argv[2]], bytes.fromhex(sys.stdin.readline()))
while True:
    watching.wait()
    watching.look()
"""


@dataclass
class _Job:
    """A head and three watchers, each with one rank; all ranks are this process."""

    folders: list[Path]
    head: HeadRings
    watchers: list[subprocess.Popen[str]]

    def join(self, number: int) -> Callable[[int], int]:
        """Let a rank join; return what makes it call a collective."""
        recorder = Recorder(self.folders[number], f"abc.0.{number}", rank=number, world_size=_NUM)
        world = recorder.communicator("torch-world-1", "WORLD", range(_NUM), number)
        assert world is not None
        return lambda operation: recorder.begin_collective(world, operation, depth=1)

    def until(self, is_so: Callable[[], object]) -> None:
        deadline = time.monotonic() + _DEADLINE
        while not is_so():
            assert all(watcher.poll() in (None, -9) for watcher in self.watchers)
            assert time.monotonic() < deadline, "it never came to that"
            self.head.wait(0.01)
            self.head.jobs()

    def child(self) -> KnownHost | None:
        """Return the host that speaks through a relay."""
        return next((host for host in self.head._hosts.values() if host.parent is not None), None)

    def is_seen(self) -> bool:
        child = self.child()
        return child is not None and not child.is_lost and bool(child.mirrors)

    def rank_of(self, link: bytes) -> int:
        """Return the rank of a host, which its ring names."""
        ((_, mirror),) = self.head._hosts[link].mirrors.items()
        return int(mirror._names[0].rpartition(".")[2])

    def finding(self) -> Finding:
        judge, found = Judge(self.head, self.head.folder), list[Finding]()

        def looks() -> bool:
            finding = self.head.confirmed(judge.look)
            found.extend([finding] if finding is not None else [])
            return bool(found)

        self.until(looks)
        return found[0]


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[_Job]:
    monkeypatch.setattr(host_tree, "MOST_DIRECT", 2)
    folders = [tmp_path / f"n{number}" for number in range(_NUM)]
    for folder in (*folders, tmp_path / "head"):
        folder.mkdir()
    secret, listening = new_secret(), listen("127.0.0.1")
    address = f"127.0.0.1:{listening.getsockname()[1]}"
    head = HeadRings(tmp_path / "head", HeadLink(listening, secret), address)
    watchers = []
    for folder in folders:
        command = [sys.executable, "-c", _WATCHER, str(folder), address]
        watcher = subprocess.Popen(command, stdin=subprocess.PIPE, text=True)
        assert watcher.stdin is not None
        watcher.stdin.write(f"{secret.hex()}\n")
        watcher.stdin.close()
        watchers.append(watcher)
    yield _Job(folders, head, watchers)
    for watcher in watchers:
        watcher.kill()
        watcher.wait()
    head.close()


def _kill_relay(job: _Job) -> tuple[int, int]:
    """Kill the relay of the host that has one; return the ranks of both."""
    child = job.child()
    assert child is not None
    assert child.parent is not None
    relay, rank = child.parent, job.rank_of(child.link)
    (killed,) = {job.rank_of(link) for link in job.head._hosts if link.decode() == relay.identity}
    job.watchers[killed].kill()
    job.until(lambda: relay.is_lost and child.is_lost)
    return killed, rank


def test_a_host_whose_relay_is_killed_finds_another_and_is_judged(job: _Job) -> None:
    calls = [job.join(number) for number in range(_NUM)]
    job.until(lambda: job.is_seen() and len(job.head._tree.direct) == 4)  # two of them are relays
    killed, rank = _kill_relay(job)
    job.until(job.is_seen)
    other = next(number for number in range(_NUM) if number not in (killed, rank))
    child = job.child()
    assert child is not None
    assert child.parent is not None
    assert job.rank_of(child.parent.identity.encode()) == other
    calls[rank](_BARRIER)
    calls[other](_ALL_REDUCE)
    finding = job.finding()
    assert sorted(finding.ranks) == sorted((rank, other))
    assert f"rank {killed} is not seen from here, so who is out of line cannot be told" in finding.summary
