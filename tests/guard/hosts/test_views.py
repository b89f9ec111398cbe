"""Whoever looks at a job on several hosts sees what ranks elsewhere do now; nothing is sent while nobody looks."""

from __future__ import annotations

import socket
import time

import msgspec
import pytest
from tests.guard.hosts.linked_job import ALL_REDUCE, BARRIER, LinkedJob, let_watchers_look

from paceline.guard.hosts import host_messages
from paceline.guard.hosts.host_reports import HostReports
from paceline.guard.hosts.link import HeadLink, WatcherLink
from paceline.guard.hosts.viewing import glances_asked
from paceline.guard.hosts.viewing.view_messages import GlanceReport, RankGlance, WantGlances
from paceline.guard.judge.judge import Judge
from paceline.guard.observe.gauges import Gauges, JobView
from paceline.guard.observe.local_rings import rank_of
from paceline.report.live.live_view import live_lines


@pytest.fixture
def asked_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glances_asked, "_ASK_SECONDS", 0.02)


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """All that head and watchers say to each other because somebody looks."""
    messages: list[object] = []
    to_watcher, to_head = HeadLink.send, WatcherLink.send

    def note(message: object) -> None:
        messages.extend([message] if isinstance(message, WantGlances | GlanceReport) else [])

    def say_to_watcher(self: HeadLink, watcher: bytes, content: bytes) -> bool:
        note(host_messages.decode_downward(content))
        return to_watcher(self, watcher, content)

    def say_to_head(self: WatcherLink, content: bytes) -> bool:
        note(host_messages.decode_upward(content))
        return to_head(self, content)

    monkeypatch.setattr(HeadLink, "send", say_to_watcher)
    monkeypatch.setattr(WatcherLink, "send", say_to_head)
    return messages


def look(job: LinkedJob, gauges: Gauges) -> JobView:
    jobs = job.head.shown_jobs()
    gauges.sample(jobs)
    (view,) = gauges.views(jobs)
    return view


def test_ranks_elsewhere_are_shown_as_they_move(job: LinkedJob, asked_often: None) -> None:
    """They stand still in no call for long enough to be reported, and yet their steps and calls are seen."""
    ranks = [job.rank(number) for number in range(3)]
    job.until(lambda: job.num_seen() == 3)
    gauges = Gauges()
    seen: list[JobView] = []
    num_calls = 0

    def has_seen() -> bool:
        nonlocal num_calls
        for number, rank in enumerate(ranks):
            time.sleep(0.005 if number == 2 else 0.0)  # it comes late, by more than clocks may be apart
            rank.recorder.unblock(rank.call(ALL_REDUCE))
        num_calls += 1
        seen.append(look(job, gauges))
        counted = [rank.steps_per_second or 0.0 for rank in seen[-1].ranks]
        return min(counted) > 0.0 and seen[-1].last_rank == 2 and seen[-1].steps > 10

    job.until(has_seen)
    assert {rank.host for rank in seen[-1].ranks} == {socket.gethostname()}
    assert seen[-1].steps <= num_calls
    assert not any(rank_of(held).reader.is_inside() for held in job.head.held_rings() if rank_of(held).process.host)


def test_nobody_is_called_last_by_less_than_clocks_may_be_apart(
    job: LinkedJob, asked_often: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranks = [job.rank(number) for number in range(3)]
    job.until(lambda: job.num_seen() == 3)
    gauges = Gauges()
    apart_ns = [10**12]
    real = HostReports.glances

    def glances(self: HostReports, want: WantGlances) -> GlanceReport | None:
        report = real(self, want)
        return msgspec.structs.replace(report, error_ns=apart_ns[0]) if report is not None else None

    monkeypatch.setattr(HostReports, "glances", glances)

    def shares() -> list[float | None]:
        for number, rank in enumerate(ranks):
            time.sleep(0.005 if number == 2 else 0.0)
            rank.recorder.unblock(rank.call(ALL_REDUCE))
        view = look(job, gauges)
        assert view.last_rank is None
        return [rank.share_last for rank in view.ranks]

    job.until(lambda: (shares()[2] or 0.0) > 0.9 and len(next(iter(gauges._histories.values())).arrivals) > 10)
    apart_ns[0] = 1
    job.until(lambda: look(job, gauges).last_rank == 2)


def test_what_ranks_did_before_anybody_looked_is_not_a_rate(job: LinkedJob, asked_often: None) -> None:
    ranks = [job.rank(number) for number in range(3)]
    for _ in range(500):
        for rank in ranks:
            rank.recorder.unblock(rank.call(ALL_REDUCE))
    job.until(lambda: job.num_seen() == 3)
    gauges = Gauges()
    rates: list[float | None] = []

    def is_known() -> bool:
        rates[:] = [rank.steps_per_second for rank in look(job, gauges).ranks]
        assert not any(rates), "nobody has made a step since"
        return None not in rates

    job.until(is_known)
    assert look(job, gauges).steps == 500


def test_the_call_that_a_moving_rank_is_inside_is_seen_and_not_judged(
    job: LinkedJob, asked_often: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A glance is no state: it must not become what the second question is about."""
    ranks = [job.rank(number) for number in range(3)]
    job.until(lambda: job.num_seen() == 3)
    monkeypatch.setattr("paceline.guard.hosts.host_reports._STILL_SECONDS", 1000.0)
    for number, rank in enumerate(ranks):
        rank.call(BARRIER if number == 2 else ALL_REDUCE)
    gauges = Gauges()
    job.until(lambda: [rank.state for rank in look(job, gauges).ranks] == ["waiting"] * 3)
    assert [rank.call for rank in look(job, gauges).ranks] == ["all_reduce", "all_reduce", "barrier"]
    let_watchers_look(job, monkeypatch)
    judge = Judge(job.head, job.folders[0])
    for _ in range(20):
        job.turn()
        assert job.head.confirmed(judge.look) is None
    monkeypatch.setattr("paceline.guard.hosts.host_reports._STILL_SECONDS", 0.05)
    found: list[object] = []

    def finds() -> bool:
        look(job, gauges)
        finding = job.head.confirmed(judge.look)
        found.extend([finding] if finding is not None else [])
        return bool(found)

    job.until(finds)


def test_nothing_is_said_while_nobody_looks(
    job: LinkedJob, said: list[object], asked_often: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(glances_asked, "_VIEWED_SECONDS", 0.2)
    for number in range(3):
        job.rank(number).call(ALL_REDUCE)
    job.until(lambda: job.num_seen() == 3)
    for _ in range(50):
        job.turn()
    assert said == []
    gauges = Gauges()

    def was_told() -> bool:
        look(job, gauges)
        return sum(isinstance(message, GlanceReport) for message in said) >= 4

    job.until(was_told)
    job.until(lambda: all(rank_of(held).glance is None for held in job.head.held_rings()))
    num_asked = sum(isinstance(message, WantGlances) for message in said)
    for _ in range(50):
        job.turn()
    assert sum(isinstance(message, WantGlances) for message in said) == num_asked


def test_hosts_are_asked_once_a_second(job: LinkedJob, said: list[object]) -> None:
    job.rank(1)
    job.until(lambda: job.num_seen() == 1)
    gauges = Gauges()
    began = time.monotonic()
    while time.monotonic() < began + 1.5:
        job.turn()
        look(job, gauges)
    assert sum(isinstance(message, WantGlances) for message in said) in (1, 2)


def test_a_host_that_is_slow_in_calls_tells_its_share_of_time(job: LinkedJob, asked_often: None) -> None:
    job.rank(1).call(ALL_REDUCE)
    job.rank(2)
    gauges = Gauges()

    def shares() -> list[float | None]:
        return [rank.share_in_calls for rank in look(job, gauges).ranks][1:] if job.num_seen() == 2 else []

    job.until(lambda: shares() == [1.0, 0.0])


def test_glances_of_ranks_that_are_not_its_own_are_left_out(job: LinkedJob, asked_often: None) -> None:
    """A host with the key tells of processes that it does not have, and of a job that there is not."""
    job.rank(1)
    job.until(lambda: job.num_seen() == 1)
    liar = WatcherLink([job.head.address], job.secret, b"liar")
    hello = host_messages.Hello(host_messages.PROTOCOL, host_messages.package_version(), "liar", "l")
    lie = RankGlance("\x1b[31mowned", "x", 1, 0.5, [], [])
    gauges = Gauges()
    try:
        job.until(lambda: liar.send(host_messages.encode(hello)) and len(job.head._hosts) == 3)
        pids = [rank_of(held).process.pid & 0xFFFFFFFF for held in job.head.held_rings()]
        for _ in range(20):
            liar.send(host_messages.encode(GlanceReport(dict.fromkeys(pids, lie), [("abc.0", 1, lie)])))
            job.turn()
            assert look(job, gauges).ranks[1].call == ""
    finally:
        liar.close()


@pytest.mark.parametrize("share", [float("nan"), -0.1, 1.1])
def test_a_share_that_is_none_is_not_read(share: float) -> None:
    wrong = GlanceReport({1: RankGlance("", "", 0, share, [], [])}, [])
    assert host_messages.decode_upward(host_messages.encode(wrong)) is None


def test_hosts_are_named_beside_ranks(job: LinkedJob, asked_often: None) -> None:
    for number in range(3):
        job.rank(number).call(ALL_REDUCE)
    job.until(lambda: len(job.head._hosts) == 2)
    for number, host in enumerate(job.head._hosts.values(), start=2):
        host.name = f"n{number}\x1b[2J"
    gauges = Gauges()
    job.until(lambda: job.num_seen() == 3 and look(job, gauges).ranks[2].call)
    view = look(job, gauges)
    lines = "\n".join(live_lines([view], columns=150, rows=12, colours=None))
    assert f"({socket.gethostname()})" in lines
    assert "(n2\\x1b[2J)" in lines
    assert "\x1b[2J" not in lines
