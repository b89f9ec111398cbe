"""What the kernel has counted for the workers of a rank."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest
from tests.helpers.cut_name import process_with_cut_name

from paceline.bench.training import counters


def test_a_worker_with_a_name_that_is_cut_in_a_character_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    with process_with_cut_name(work="pass") as process:
        monkeypatch.setattr(counters, "active_children", lambda: [SimpleNamespace(pid=process.pid)])
        monkeypatch.setattr("resource.getrusage", lambda who: SimpleNamespace(ru_utime=0.0, ru_stime=0.0))
        end = time.monotonic() + 60
        while counters.worker_seconds() < 0.05:
            assert time.monotonic() < end, "it computes all the time"
            time.sleep(0.01)
        assert counters.read_counters() is not None


def test_a_worker_that_has_ended_counts_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    with process_with_cut_name() as process:
        pass
    monkeypatch.setattr(counters, "active_children", lambda: [SimpleNamespace(pid=process.pid)])
    monkeypatch.setattr("resource.getrusage", lambda who: SimpleNamespace(ru_utime=1.0, ru_stime=0.5))
    assert counters.worker_seconds() == 1.5
