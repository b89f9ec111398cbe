"""Viewers elsewhere see what the head sees, with a key of their own, and can do nothing but look."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from threading import Thread

import pytest
from tests.guard.hosts.linked_job import ALL_REDUCE, LinkedJob

from paceline.guard.hosts import host_messages
from paceline.guard.hosts.keys import new_secret
from paceline.guard.hosts.link import HeadLink, WatcherLink, listen
from paceline.guard.hosts.viewing import glances_asked, view_service
from paceline.guard.hosts.viewing.run_viewer import RunViewer
from paceline.guard.hosts.viewing.view_messages import (
    VIEW_PROTOCOL,
    Attach,
    RunPicture,
    decode_attach,
    decode_reply,
    encode_view,
)
from paceline.guard.hosts.viewing.view_service import ViewService
from paceline.guard.observe.gauges import JobView, RankView
from paceline.guard.observe.watched_job import WatchedJob


@dataclass
class ShownJob:
    """A linked job that viewers can look at."""

    job: LinkedJob
    address: str
    secret: bytes
    outcome: bytes = b""
    viewers: list[RunViewer] = field(default_factory=list)

    def viewer(self, secret: bytes | None = None) -> RunViewer:
        self.viewers.append(RunViewer(self.address, secret or self.secret))
        return self.viewers[-1]

    def until(self, is_so: Callable[[], object]) -> None:
        def turns() -> object:
            for viewer in self.viewers:
                viewer.wait(0.0)
            return is_so()

        self.job.until(turns)


@pytest.fixture
def shown(job: LinkedJob, monkeypatch: pytest.MonkeyPatch) -> Iterator[ShownJob]:
    monkeypatch.setattr(glances_asked, "_ASK_SECONDS", 0.02)
    monkeypatch.setattr(view_service, "_SECONDS", 0.02)
    secret, listening = new_secret(), listen("127.0.0.1")
    made = ShownJob(job, f"127.0.0.1:{listening.getsockname()[1]}", secret)
    job.head._viewing = ViewService(HeadLink(listening, secret), lambda: made.outcome)
    yield made
    for viewer in made.viewers:
        viewer.close()


def test_a_viewer_sees_ranks_of_all_hosts_as_they_move(shown: ShownJob) -> None:
    ranks = [shown.job.rank(number) for number in range(3)]
    viewer = shown.viewer()

    def sees_steps() -> bool:
        for rank in ranks:
            rank.recorder.unblock(rank.call(ALL_REDUCE))
        return any(all(rank.steps_per_second for rank in view.ranks) for view in viewer.views or ())

    shown.until(sees_steps)
    assert viewer.views is not None
    assert [rank.rank for rank in viewer.views[0].ranks] == [0, 1, 2]
    assert all(rank.host for rank in viewer.views[0].ranks)


def test_the_head_asks_hosts_only_as_long_as_a_viewer_looks(shown: ShownJob, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glances_asked, "_VIEWED_SECONDS", 0.2)
    monkeypatch.setattr(view_service, "_SILENT_SECONDS", 0.2)
    shown.job.rank(1)
    shown.job.until(lambda: shown.job.num_seen() == 1)
    assert shown.job.head._glances._viewed_at is None
    viewer = shown.viewer()
    shown.until(lambda: viewer.views)
    assert shown.job.head._glances._viewed_at is not None
    shown.viewers.remove(viewer)
    viewer.close()
    shown.job.until(lambda: shown.job.head._glances._viewed_at is None)


@pytest.mark.parametrize("port", ["of viewers", "of hosts"])
def test_who_has_the_wrong_key_sees_nothing(shown: ShownJob, port: str) -> None:
    """Another key at the port of viewers, or the key of viewers at the port of hosts."""
    if port == "of hosts":
        stranger = RunViewer(shown.job.head.address, shown.secret)
        shown.viewers.append(stranger)
    else:
        stranger = shown.viewer(new_secret())
    viewer = shown.viewer()
    shown.until(lambda: viewer.views is not None)
    for _ in range(50):
        shown.until(lambda: True)
        shown.job.turn()
    assert stranger.views is None
    assert len(shown.job.head._viewing._viewers) == 1  # type: ignore[union-attr]


def test_a_viewer_cannot_report_states_nor_end_anything(shown: ShownJob) -> None:
    """What a host may say is not understood at the port of viewers, and their key does not open that of hosts."""
    job = shown.job
    job.rank(1)
    job.until(lambda: job.num_seen() == 1)
    end = host_messages.EndFacts(at_ns=5, alive_ns=4, status=0, memory_kills=0)
    ring = host_messages.RingReport(os.getpid(), 1, ["ring.abc.0.7"], b"", host_messages.KernelFacts(), end)
    words: list[host_messages.Upward | host_messages.Downward] = [
        host_messages.Hello(host_messages.PROTOCOL, host_messages.package_version(), "viewer", "v"),
        host_messages.Beat(sent_ns=1),
        host_messages.Report(1, True, [ring], [], []),
        host_messages.Bye(number=1),
        host_messages.EndJob(),
    ]
    names = {host.name for host in job.head._hosts.values()}
    at_viewers = WatcherLink([shown.address], shown.secret, b"one")
    at_hosts = WatcherLink([job.head.address], shown.secret, b"two")
    viewer = shown.viewer()
    try:
        shown.until(lambda: viewer.views and at_viewers.send(b"x"))
        for _ in range(20):
            for word in words:
                at_viewers.send(host_messages.encode(word))
                at_hosts.send(host_messages.encode(word))
            shown.until(lambda: True)
            job.turn()
    finally:
        at_viewers.close()
        at_hosts.close()
    assert len(job.head._hosts) == 2
    assert {host.name for host in job.head._hosts.values()} == names
    assert not list(job.folders[0].glob("ring.abc.0.7"))
    assert not any(watcher.has_ended for watcher in job.watchers)
    assert job.num_seen() == 1


def test_viewers_are_told_how_the_run_has_ended(shown: ShownJob) -> None:
    viewer = shown.viewer()
    shown.until(lambda: viewer.views is not None)
    shown.outcome = json.dumps({"exit_code": 3}).encode()
    viewing, shown.job.head._viewing = shown.job.head._viewing, None
    assert viewing is not None
    closing = Thread(target=viewing.close)
    closing.start()
    began = time.monotonic()
    try:
        shown.until(lambda: viewer.outcome is not None)
    finally:
        closing.join()
    assert viewer.outcome == shown.outcome
    assert time.monotonic() < began + 1.0  # it does not wait for who has heard it


def test_more_viewers_than_there_is_room_for_are_told_so(shown: ShownJob, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view_service, "_MOST_VIEWERS", 1)
    first = shown.viewer()
    shown.until(lambda: first.views is not None)
    second = shown.viewer()
    shown.until(lambda: second.why_not)
    assert second.why_not == "1 others look at this run already"
    assert second.views is None


def test_a_viewer_of_another_version_is_told_so(shown: ShownJob, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paceline.guard.hosts.viewing.run_viewer.package_version", lambda: "0.0.1")
    viewer = shown.viewer()
    shown.until(lambda: viewer.why_not)
    assert viewer.why_not.endswith("this host 0.0.1")
    assert viewer.views is None


def test_a_fault_in_showing_does_not_reach_the_run(shown: ShownJob, monkeypatch: pytest.MonkeyPatch) -> None:
    viewer = shown.viewer()
    shown.until(lambda: viewer.views is not None)

    def fail(self: ViewService, jobs: list[WatchedJob], now: float) -> None:
        raise RuntimeError("no")

    monkeypatch.setattr(ViewService, "_show", fail)
    shown.until(lambda: shown.job.head._viewing is None)
    assert "nobody else can look at this run any more: RuntimeError: no" in shown.job.head.problems()
    assert viewer.outcome is None  # the run has not ended
    shown.job.rank(1)
    shown.until(lambda: shown.job.num_seen() == 1)


@pytest.mark.parametrize("content", [b"", b"\xc1\xff", os.urandom(5000), encode_view(RunPicture([]))])
def test_what_a_viewer_should_not_say_is_not_read(content: bytes) -> None:
    assert decode_attach(content) is None


_RANK = RankView(rank=0, state="running")
_VIEW = JobView(world_size=1, seconds=1.0, ranks=(_RANK,))


@pytest.mark.parametrize(
    "view",
    [
        replace(_VIEW, seconds=float("nan")),
        replace(_VIEW, last_by_ms=float("inf")),
        replace(_VIEW, ranks=(replace(_RANK, state="owned"),)),
        replace(_VIEW, ranks=(replace(_RANK, seconds=float("inf")),)),
        replace(_VIEW, ranks=(replace(_RANK, share_last=float("nan")),)),
    ],
)
def test_a_picture_that_cannot_be_shown_is_left_out(view: JobView) -> None:
    assert decode_reply(encode_view(RunPicture([view]))) is None
    assert decode_reply(encode_view(RunPicture([_VIEW]))) == RunPicture([_VIEW])


def test_a_viewer_says_again_that_it_looks(shown: ShownJob, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not with every look: what it says is one short message each second."""
    said: list[bytes] = []
    real = WatcherLink.send

    def send(self: WatcherLink, content: bytes) -> bool:
        is_sent = real(self, content)
        said.extend([content] if is_sent and decode_attach(content) else [])
        return is_sent

    monkeypatch.setattr(WatcherLink, "send", send)
    viewer = shown.viewer()
    shown.until(lambda: viewer.views is not None)
    began = time.monotonic()
    shown.until(lambda: time.monotonic() > began + 1.2)
    assert 1 <= len(said) <= 3
    assert decode_attach(said[0]) == Attach(VIEW_PROTOCOL, host_messages.package_version())
