"""Ranks that are our children: waited for, given a moment after a failure, and never left behind."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time

import pytest

from paceline.launch import wait_for_ranks as module
from paceline.launch.wait_for_ranks import ForkedRank, RankChild, end_ranks, wait_for_ranks
from paceline.process.procfs import is_alive


def start(code: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", f"import os, signal, sys, time\n{code}"])


def fork(code: int | None) -> ForkedRank:
    """Split off a rank that exits with a code, or is killed."""
    pid = os.fork()
    if pid == 0:
        if code is None:
            os.kill(os.getpid(), signal.SIGKILL)
        os._exit(code or 0)
    return ForkedRank(pid)


def test_the_code_is_that_of_the_rank_that_failed_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_GRACE_SECONDS", 60.0)
    ranks: list[RankChild] = [start("time.sleep(2); sys.exit(4)"), start("sys.exit(3)"), start("pass")]
    assert wait_for_ranks(ranks) == 3
    assert [rank.poll() for rank in ranks] == [4, 3, 0]
    end_ranks(ranks)


def test_ranks_that_stay_after_a_failure_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_GRACE_SECONDS", 0.1)
    stays, fails = start("time.sleep(600)"), start("sys.exit(3)")
    assert wait_for_ranks([stays, fails]) == 3
    assert stays.poll() is None
    end_ranks([stays, fails])
    assert stays.returncode == -signal.SIGKILL


def test_ranks_that_were_told_to_end_have_all_the_time_they_were_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_GRACE_SECONDS", 0.0)
    told = time.monotonic() + 60
    saves, ended = start("time.sleep(1)"), start("os.kill(os.getpid(), signal.SIGTERM)")
    assert wait_for_ranks([saves, ended], save_until=lambda: told) == -signal.SIGTERM
    assert saves.returncode == 0, "the other one has not shortened its time"
    stays = start("time.sleep(600)")
    assert wait_for_ranks([stays], save_until=lambda: 0.0) == 0
    end_ranks([stays])
    assert wait_for_ranks([], save_until=lambda: math.inf) == 0


def test_a_forked_rank_is_as_one_that_was_started() -> None:
    ranks = [fork(0), fork(7), fork(None)]
    assert [rank.wait() for rank in ranks] == [0, 7, -signal.SIGKILL]
    assert [rank.poll() for rank in ranks] == [0, 7, -signal.SIGKILL]
    for rank in ranks:
        rank.kill()  # none of them is there any more, and their numbers may be another's
    pid = os.fork()
    if pid == 0:
        time.sleep(600)
    stays = ForkedRank(pid)
    assert stays.poll() is None
    end_ranks([stays])
    assert not is_alive(pid)
