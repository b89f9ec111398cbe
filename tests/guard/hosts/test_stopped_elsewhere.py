"""A rank of another host that stopped before a call goes on, whatever happens to the head."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from tests.guard.hosts.linked_job import ALL_REDUCE, DEADLINE, WORLD, LinkedJob

from paceline.guard.hosts.head_rings import HeadRings
from paceline.guard.hosts.keys import new_secret
from paceline.guard.hosts.watching import Watching
from paceline.guard.observe.local_rings import LocalRings
from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.run.judged_run import JudgedRun
from paceline.guard.run.watch_options import WatchOptions
from paceline.guard.shared_memory import layout


def test_a_rank_that_stopped_goes_on_when_the_judge_says_so(job: LinkedJob) -> None:
    rank = job.rank(1)
    ring = rank.recorder.ring
    rank.call(ALL_REDUCE)
    ring.words[layout.STOP_REASON], ring.words[layout.STOPPED] = layout.STOP_COLLECTIVE, 1
    job.until(lambda: any(mark[layout.STOPPED] for each in job.head.jobs() for mark in each.marks().values()))
    (found,) = job.head.jobs()
    found.let_go_on(1)
    job.until(lambda: ring.words[layout.GO_ON] == 1)


def test_a_rank_that_stopped_goes_on_without_a_head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paceline.guard.hosts.watching._ANSWER_SECONDS", 0.05)
    recorder = Recorder(tmp_path, f"{WORLD}.0.0", rank=0, world_size=2)
    recorder.ring.words[layout.STOPPED] = 1
    rings = LocalRings(tmp_path)
    watching = Watching(rings, ["127.0.0.1:1"], new_secret())  # nobody listens there
    deadline = time.monotonic() + DEADLINE
    while recorder.ring.words[layout.GO_ON] != 1:
        assert time.monotonic() < deadline
        watching.wait(0.01)
        watching.look()
    watching.close()
    rings.close()


@pytest.fixture
def short_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """A head that answers at all does so many times within the time that a rank waits for its word."""
    monkeypatch.setattr("paceline.guard.hosts.watching._BEAT_SECONDS", 0.01)
    monkeypatch.setattr("paceline.guard.hosts.watching._ANSWER_SECONDS", 1.0)


def _stopped(job: LinkedJob) -> memoryview:
    ring = job.rank(1).recorder.ring
    ring.words[layout.STOP_REASON], ring.words[layout.STOPPED] = layout.STOP_COLLECTIVE, 1
    return ring.words


@pytest.mark.usefixtures("short_times")
def test_a_rank_that_stopped_goes_on_if_the_head_does_not_know_its_host(
    job: LinkedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It answers, as it does to hosts with another version, and takes nothing in."""
    monkeypatch.setattr(HeadRings, "_welcome", lambda self, link, hello: None)
    words = _stopped(job)
    job.until(lambda: words[layout.GO_ON] == 1)


@pytest.mark.usefixtures("short_times")
def test_a_rank_that_stopped_goes_on_after_a_fault_of_the_judge(job: LinkedJob) -> None:
    words = _stopped(job)
    job.until(lambda: job.num_seen() == 1)
    judged = JudgedRun(job.head, job.folders[0], WatchOptions())
    assert judged.unless_at_fault(lambda: 1 // 0) is None
    job.until(lambda: words[layout.GO_ON] == 1)
    assert job.head.processes_to_end() == []  # nobody hears whether they have ended
