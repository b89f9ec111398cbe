"""The head sees the ranks of other hosts, and finds something only where all hosts agree that it stands."""

from __future__ import annotations

import itertools
import socket

import pytest
from tests.guard.hosts.linked_job import ALL_REDUCE, BARRIER, LinkedJob, let_watchers_look, settled

from paceline.guard.hosts import host_messages, known_hosts
from paceline.guard.hosts.head_rings import HeadRings
from paceline.guard.hosts.link import HeadLink, WatcherLink
from paceline.guard.judge.judge import Judge


def test_ranks_of_other_hosts_are_seen_with_their_calls(job: LinkedJob) -> None:
    ranks = [job.rank(number) for number in range(3)]
    for rank in ranks:
        rank.call(ALL_REDUCE)
    job.until(lambda: job.num_seen() == 3)

    def waiting() -> list[str]:
        (found,) = job.head.jobs()
        states = found.snapshot(history=10).ranks
        return [state.history[-1].operation for state in states if state is not None and state.waits]

    job.until(lambda: waiting() == ["torch.all_reduce"] * 3)
    (found,) = job.head.jobs()
    assert [held.process.host for held in found.ranks.values()].count(socket.gethostname()) == 2
    assert job.head.out_of_sight() == []


def test_a_call_that_differs_on_another_host_is_found(job: LinkedJob, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        job.rank(number).call(BARRIER if number == 2 else ALL_REDUCE)
    finding = settled(job, Judge(job.head, job.folders[0]), monkeypatch)
    assert finding.ranks == (2,)
    groups = [group.ranks for group in finding.groups if group.hosts]
    assert (2,) in groups
    assert sorted(itertools.chain.from_iterable(groups)) == [0, 1, 2]  # one may still be on its way into the call


def test_nothing_is_found_while_a_rank_moves(job: LinkedJob, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its watcher says no, each time that the head asks."""
    for number in range(3):
        job.rank(number).call(BARRIER if number == 2 else ALL_REDUCE)
    job.until(lambda: job.num_seen() == 3)
    judge = Judge(job.head, job.folders[0])
    reports = job.watchers[1]._reports
    monkeypatch.setattr(reports.marks, "is_same", lambda number, marks: False)
    asked = [job.head._taken.question]
    let_watchers_look(job, monkeypatch)

    def has_asked_thrice() -> bool:
        assert job.head.confirmed(judge.look) is None
        asked.append(job.head._taken.question)
        return asked[-1] >= asked[0] + 3

    job.until(has_asked_thrice)


def test_a_rank_that_moves_again_runs_for_the_head(job: LinkedJob) -> None:
    rank = job.rank(1)
    number = rank.call(ALL_REDUCE)

    def waits() -> bool:
        return any(
            state is not None and state.waits for each in job.head.jobs() for state in each.snapshot(history=0).ranks
        )

    job.until(waits)
    rank.recorder.unblock(number)
    job.until(lambda: not waits())


def test_a_report_that_was_lost_is_told_again(job: LinkedJob, monkeypatch: pytest.MonkeyPatch) -> None:
    job.until(lambda: len(job.head._hosts) == 2)
    lost: list[object] = []
    real = WatcherLink.send

    def send(self: WatcherLink, content: bytes) -> bool:
        if isinstance(host_messages.decode_upward(content), host_messages.Report) and len(lost) < 3:
            lost.append(content)
            return True
        return real(self, content)

    monkeypatch.setattr(WatcherLink, "send", send)
    job.rank(1)
    job.rank(2)
    job.until(lambda: job.num_seen() == 2)
    assert lost


def test_a_host_that_is_not_heard_of_may_do_anything(job: LinkedJob, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        job.rank(number).call(BARRIER if number == 2 else ALL_REDUCE)
    job.until(lambda: job.num_seen() == 3)
    monkeypatch.setattr(known_hosts, "_SILENT_SECONDS", 0.2)
    silent = job.watchers.pop()
    job.until(lambda: job.num_seen() == 2)
    ((unseen),) = job.head.out_of_sight()
    assert len(unseen.ranks) == 1
    assert any("does not report" in problem for problem in job.head.problems())
    monkeypatch.setattr(known_hosts, "_SILENT_SECONDS", 60.0)
    job.watchers.append(silent)
    job.until(lambda: job.num_seen() == 3)  # it is heard of again, and has told everything


def test_one_look_asks_hosts_once(job: LinkedJob, monkeypatch: pytest.MonkeyPatch) -> None:
    """New reports may come in meanwhile again and again: the next look asks again."""
    for number in range(3):
        job.rank(number).call(BARRIER if number == 2 else ALL_REDUCE)
    finding = settled(job, Judge(job.head, job.folders[0]), monkeypatch)
    asked: list[int] = []

    def settle(self: HeadRings) -> bool:
        asked.append(1)
        self._settled = {b"of a report that is not the last": 1}
        return True

    monkeypatch.setattr(HeadRings, "_settle", settle)
    job.head._settled = None
    assert job.head.confirmed(lambda: finding) is None
    assert len(asked) == 1


def test_everybody_looks_who_lives_twice_and_not_for_each_of_many_ranks_that_end_together(
    job: LinkedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (1, 2):
        job.rank(number)
    job.until(lambda: len(job.head._elsewhere) == 2)
    asked: list[bytes] = []
    real = HeadLink.send

    def send(self: HeadLink, watcher: bytes, content: bytes) -> bool:
        message = host_messages.decode_downward(content)
        if isinstance(message, host_messages.Ask) and not message.question:
            asked.append(watcher)
        return real(self, watcher, content)

    monkeypatch.setattr(HeadLink, "send", send)
    end = host_messages.EndFacts(at_ns=5, alive_ns=4, status=0, memory_kills=0)
    rings = [
        host_messages.RingReport(pid, 1, [f"ring.def.0.{pid}"], b"", host_messages.KernelFacts(), end)
        for pid in range(10, 40)
    ]
    other = WatcherLink([job.head.address], job.secret, b"many")
    hello = host_messages.Hello(host_messages.PROTOCOL, host_messages.package_version(), "many", "m")
    try:
        job.until(lambda: other.send(host_messages.encode(hello)) and len(job.head._hosts) == 3)
        other.send(host_messages.encode(host_messages.Report(1, True, rings, [], [])))
        job.until(lambda: len(job.head._elsewhere) == 32)
    finally:
        other.close()
    assert sorted(asked.count(watcher._name) for watcher in job.watchers) == [2, 2]
