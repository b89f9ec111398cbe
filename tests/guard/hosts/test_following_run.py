"""A node that follows a head: what it does while the head answers, and when nobody does."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from paceline.guard.hosts.head_rings import HeadRings
from paceline.guard.hosts.keys import new_secret
from paceline.guard.hosts.link import HeadLink, listen
from paceline.guard.observe.local_rings import LocalRings
from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.run.several_hosts.following_run import FollowingRun
from paceline.guard.run.watch_options import WatchOptions
from paceline.guard.shared_memory.operations import BY_NAME
from paceline.guard.verdict.finding import Cause, Finding

_ALL_REDUCE, _BARRIER = BY_NAME["torch.all_reduce"].code, BY_NAME["torch.barrier"].code
_DEADLINE = 100.0
_MODULE = "paceline.guard.run.several_hosts.following_run"


def _call(folder: Path, rank: int, operation: int, *, size: int) -> None:
    recorder = Recorder(folder, f"abc.0.{rank}", rank=rank, world_size=size)
    world = recorder.communicator("torch-world-1", "WORLD", range(size), rank)
    assert world is not None
    recorder.begin_collective(world, operation, depth=1)


def _until(look: Callable[[], Finding | None]) -> Finding:
    deadline = time.monotonic() + _DEADLINE
    while True:
        finding = look()
        if finding is not None:
            return finding
        assert time.monotonic() < deadline, "nothing was found"
        time.sleep(0.01)


@pytest.fixture
def rings(tmp_path: Path) -> Iterator[LocalRings]:
    folder = tmp_path / "node"
    folder.mkdir()
    held = LocalRings(folder)
    yield held
    held.close()


def test_without_a_head_a_node_is_judged_alone_and_says_so_once(
    rings: LocalRings, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setattr(f"{_MODULE}._SILENT_SECONDS", 0.2)
    said: list[str] = []
    options = WatchOptions(on_unseen=said.append)
    run = FollowingRun(rings, rings.folder, options, ["torchrun"], "127.0.0.1:1", new_secret())  # nobody is there
    request.addfinalizer(run._watching.close)
    for rank in range(3):
        _call(rings.folder, rank, _BARRIER if rank == 2 else _ALL_REDUCE, size=3)
    assert _until(run.look).ranks == (2,)
    run.look()
    assert [text for text in said if "the ranks of this host are judged alone" in text] == said[:1]
    assert said[0].startswith("nobody answers at 127.0.0.1:1")
    run.look_back(failed=False)


def test_without_a_head_a_node_looks_back_alone(
    rings: LocalRings, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setattr(f"{_MODULE}._LAST_SECONDS", 0.1)
    said: list[str] = []
    options = WatchOptions(on_unseen=said.append)
    run = FollowingRun(rings, rings.folder, options, ["torchrun"], "127.0.0.1:1", new_secret())
    request.addfinalizer(run._watching.close)
    judged: list[bool] = []
    monkeypatch.setattr(run._judge, "look_back", lambda *, failed, **told: judged.append(failed))
    assert run.look_back(failed=True) is None
    assert judged == [True]
    assert said[0].startswith("nobody answers at 127.0.0.1:1")


def test_the_time_limit_holds_while_the_head_answers(
    rings: LocalRings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setattr(f"{_MODULE}._SILENT_SECONDS", _DEADLINE)
    monkeypatch.setattr(f"{_MODULE}._LAST_SECONDS", 0.1)
    secret, listening = new_secret(), listen("127.0.0.1")
    address = f"127.0.0.1:{listening.getsockname()[1]}"
    (tmp_path / "head").mkdir()
    head = HeadRings(tmp_path / "head", HeadLink(listening, secret), address, owns_hosts=False)
    request.addfinalizer(head.close)
    options = WatchOptions(timeout_seconds=0.5)
    run = FollowingRun(rings, rings.folder, options, ["torchrun"], address, secret)
    request.addfinalizer(run._watching.close)
    _call(rings.folder, 1, _ALL_REDUCE, size=3)

    def look() -> Finding | None:
        head.wait(0.0)
        return run.look()

    finding = _until(look)
    assert (finding.cause, finding.ranks) == (Cause.TIMEOUT, (1,))
    assert "because the head, which judges all hosts, has found nothing" in finding.summary
    run.look_back(failed=False)
