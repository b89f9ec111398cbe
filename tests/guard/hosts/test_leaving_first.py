"""After a finding, hosts leave before their ranks are killed: a batch system may kill watchers together with them."""

from __future__ import annotations

import time

import pytest
from tests.guard.hosts.linked_job import BARRIER, LinkedJob, let_watchers_look

from paceline.guard.hosts import head_rings
from paceline.guard.hosts.head_rings import HeadRings
from paceline.guard.verdict.finding import Cause, Finding, FindingKind

FINDING = Finding(
    kind=FindingKind.DEADLOCK, field=None, ranks=(1,), summary="", cause=Cause.UNEVEN_STEPS, advice="", groups=()
)


def _with_two_ranks(job: LinkedJob) -> None:
    for number in (1, 2):
        job.rank(number).call(BARRIER)
    job.until(lambda: job.num_seen() == 2)
    assert len(job.head.processes_to_end()) == 2


def test_hosts_that_have_left_are_neither_waited_for_nor_told_again(
    job: LinkedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(head_rings, "_LEAVE_SECONDS", 100.0)
    let_watchers_look(job, monkeypatch)
    _with_two_ranks(job)
    wait = HeadRings.wait

    def wait_and_leave(self: HeadRings, seconds: float) -> None:
        wait(self, seconds)
        for watcher in job.watchers:
            if watcher.finding:
                watcher.leave_before_ranks()

    monkeypatch.setattr(HeadRings, "wait", wait_and_leave)
    job.head.tell_finding(FINDING)
    began = time.monotonic()
    job.head.await_leaving()
    assert time.monotonic() - began < 90
    assert job.head.processes_to_end() == []
    assert job.head.problems() == []


def test_nothing_is_said_of_hosts_that_fall_silent_at_the_end(job: LinkedJob, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paceline.guard.hosts.known_hosts._SILENT_SECONDS", 0.2)
    _with_two_ranks(job)
    job.head.tell_finding(FINDING)
    deadline = time.monotonic() + 100
    while job.head.processes_to_end():  # watchers do not look any more
        assert time.monotonic() < deadline
        job.head.wait(0.05)
        job.head.jobs()
    assert job.head.problems() == []


def test_hosts_that_fall_silent_before_are_named(job: LinkedJob, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paceline.guard.hosts.known_hosts._SILENT_SECONDS", 0.2)
    _with_two_ranks(job)
    deadline = time.monotonic() + 100
    while job.head.processes_to_end():
        assert time.monotonic() < deadline
        job.head.wait(0.05)
        job.head.jobs()
    assert any("does not report" in problem for problem in job.head.problems())
