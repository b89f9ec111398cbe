"""Other hosts neither end a job through its head, nor keep those waiting who stop it."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from typing import Any

import pytest
from tests.guard.hosts.linked_job import LinkedJob

from paceline.guard.hosts.head_rings import HeadRings
from paceline.guard.run import watched_run
from paceline.guard.run.held_output import HeldOutput
from paceline.guard.run.judged_run import JudgedRun
from paceline.guard.run.started_launcher import StartedLauncher
from paceline.guard.run.stopping_job import ForwardedSignals
from paceline.guard.run.watch_options import WatchOptions


def test_what_other_hosts_say_never_ends_the_job_through_the_head(
    job: LinkedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: HeadRings) -> None:
        raise RuntimeError("nobody has thought of this")

    monkeypatch.setattr(HeadRings, "hear", fail)
    told: list[str] = []
    judged = JudgedRun(job.head, job.folders[0], WatchOptions(on_fault=told.append))
    judged.wait(0.01)
    judged.wait(0.01)
    assert len(told) == 1
    assert "nobody has thought of this" in told[0]


@pytest.mark.parametrize("owns_hosts", [True, False])
def test_who_stops_the_head_waits_only_for_ranks_that_it_owns(
    owns_hosts: bool, job: LinkedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    job.rank(1)
    job.until(lambda: job.num_seen() == 1)
    job.head._owns_hosts = owns_hosts
    ended: list[str] = []
    end_host = HeadRings._end_host

    def note_end(head: HeadRings, host: Any) -> None:
        ended.append(host.name)
        end_host(head, host)

    monkeypatch.setattr(HeadRings, "_end_host", note_end)
    monkeypatch.setattr(StartedLauncher, "end_all", lambda self, also: None)
    monkeypatch.setattr("paceline.guard.hosts.head_rings._END_SECONDS", 0.2)  # nobody ends the rank
    launcher = StartedLauncher(subprocess.Popen([sys.executable, "-c", ""]))
    watched_run._end_everywhere(launcher, job.head, None)
    launcher.wait()
    launcher.close()
    assert set(ended) == ({socket.gethostname()} if owns_hosts else set())


def test_a_host_that_has_left_to_end_its_ranks_is_not_waited_for(
    job: LinkedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    job.rank(1)
    job.until(lambda: job.num_seen() == 1)
    job.head._owns_hosts = False
    waited: list[float] = []

    def leave(head: HeadRings, seconds: float) -> None:
        waited.append(seconds)
        for host in head._hosts.values():
            host.has_left = True

    monkeypatch.setattr(HeadRings, "wait", leave)
    job.head.end_elsewhere(after_launcher=False)
    assert len(waited) == 1


def test_who_stops_a_job_does_not_wait_for_last_words(job: LinkedJob, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HeadRings, "hear_last_words", lambda self, *, failed: pytest.fail("it has waited"))
    options, signals = WatchOptions(), ForwardedSignals()
    signals.received = signal.SIGINT
    process = subprocess.Popen([sys.executable, "-c", "raise SystemExit(1)"])
    launcher = StartedLauncher(process)
    process.wait()
    judged, held = JudgedRun(job.head, job.folders[0], options), HeldOutput(job.folders[0], None)
    assert watched_run._watch(launcher, job.head, judged, held, options, signals) is None
    assert judged.fault is None
    launcher.close()
