"""Commands that are given on each node, one after another: their heads listen at one address with one secret, and each
follower stays with the head of its own command."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from paceline.guard.hosts.head_rings import HeadRings
from paceline.guard.hosts.keys import new_secret
from paceline.guard.hosts.link import HeadLink, listen
from paceline.guard.hosts.watching import Watching
from paceline.guard.observe.local_rings import LocalRings

_DEADLINE = 100.0


class _Node:
    """One address, one secret, and heads and followers that come and go."""

    def __init__(self, folder: Path, request: pytest.FixtureRequest) -> None:
        self._folder, self._request, self._secret = folder, request, new_secret()
        self._port, self._num = 0, 0
        self._heads: list[HeadRings] = []
        request.addfinalizer(self._close_all)

    def _new_folder(self) -> Path:
        self._num += 1
        folder = self._folder / str(self._num)
        folder.mkdir()
        return folder

    def head(self) -> HeadRings:
        listening = listen("127.0.0.1", self._port)
        self._port = listening.getsockname()[1]
        head = HeadRings(self._new_folder(), HeadLink(listening, self._secret), self._address, owns_hosts=False)
        self._heads.append(head)
        return head

    def close(self, head: HeadRings) -> None:
        self._heads.remove(head)
        head.close()

    def _close_all(self) -> None:
        for head in list(self._heads):
            self.close(head)

    @property
    def _address(self) -> str:
        return f"127.0.0.1:{self._port}"

    def follower(self, part: str = "1") -> Watching:
        rings = LocalRings(self._new_folder())
        self._request.addfinalizer(rings.close)
        follower = Watching(rings, [self._address], self._secret, part=part)
        self._request.addfinalizer(follower.close)
        return follower


@pytest.fixture
def node(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> _Node:
    monkeypatch.setattr("paceline.guard.hosts.watching._BEAT_SECONDS", 0.05)
    return _Node(tmp_path, request)


def _until(is_so: Callable[[], object], head: HeadRings, *followers: Watching) -> None:
    deadline = time.monotonic() + _DEADLINE
    while not is_so():
        assert time.monotonic() < deadline, "it never came to that"
        for follower in followers:
            follower.wait(0.002)
            follower.look()
        head.wait(0.002)


def _num_asked(head: HeadRings, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that grows with each beat of somebody whom the head does not know."""
    asked: list[int] = []
    real = HeadRings._hear_beat

    def hear(self: HeadRings, link: bytes, beat: object) -> None:
        if self is head and link not in self._hosts:
            asked.append(1)
        real(self, link, beat)  # type: ignore[arg-type]

    monkeypatch.setattr(HeadRings, "_hear_beat", hear)
    return asked


def test_a_follower_of_an_earlier_run_does_not_go_over_to_the_next_head(
    node: _Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = node.head()
    early = node.follower()
    _until(lambda: early.was_known, first, early)
    node.close(first)
    second = node.head()
    asked = _num_asked(second, monkeypatch)
    late = node.follower()
    _until(lambda: late.was_known and len(asked) > 20, second, early, late)
    assert len(second._hosts) == 1
    assert not early.was_heard_within(0.001)


def test_a_follower_of_the_next_run_waits_for_its_own_head(node: _Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its task was faster than that of the first head, which still watches others."""
    first = node.head()
    early, other = node.follower(), node.follower(part="2")
    _until(lambda: early.was_known and other.was_known, first, early, other)
    _until(lambda: len(first._taken.numbers) == 2, first, early, other)
    early.close()
    _until(lambda: any(host.has_left for host in first._hosts.values()), first, other)
    late = node.follower()
    asked = _num_asked(first, monkeypatch)
    _until(lambda: len(asked) > 20, first, late, other)
    assert len(first._hosts) == 2
    node.close(first)
    second = node.head()
    _until(lambda: late.was_known, second, late)
