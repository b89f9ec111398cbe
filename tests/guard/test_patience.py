"""A finding is held back for ranks that are coming, and longer only while they have no processor."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from paceline.guard.judge import patience
from paceline.guard.judge.patience import GATHER_SECONDS, LEAVE_SECONDS, MOST_SECONDS, Patience, coming_ranks
from paceline.guard.verdict.finding import Cause, Finding, FindingField, FindingKind, GroupState, RankGroup
from paceline.process.procfs import processor_seconds, starved_seconds


def group(
    ranks: tuple[int, ...], state: str, communicator: str | None = None, sequence: int | None = None
) -> RankGroup:
    call = None if communicator is None else "all_reduce"
    return RankGroup(
        ranks=ranks, state=GroupState(state), call=call, site=None, communicator=communicator, sequence=sequence
    )


def mismatch(ranks: tuple[int, ...], *groups: RankGroup) -> Finding:
    return Finding(
        kind=FindingKind.MISMATCH,
        field=FindingField.OPERATION,
        ranks=ranks,
        summary="",
        cause=Cause.CALL_ORDER,
        advice="",
        groups=groups,
    )


TWO_OF_THREE = mismatch((1, 2), group((1,), "blocked", "W", 2), group((2,), "blocked", "W", 2), group((0,), "running"))


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(patience, "time", clock)
    return clock


def test_a_rank_that_can_run_has_half_a_second(clock: Clock) -> None:
    held = Patience()
    assert held.holds_back(TWO_OF_THREE, {0}, lambda rank: 7.0)
    clock.now += GATHER_SECONDS
    assert held.holds_back(TWO_OF_THREE, {0}, lambda rank: 7.0)
    clock.now += 0.01
    assert not held.holds_back(TWO_OF_THREE, {0}, lambda rank: 7.0)


def test_time_without_a_processor_does_not_count_up_to_a_limit(clock: Clock) -> None:
    held = Patience()
    began = clock.now
    starved = {0: 7.0, 1: 0.0, 2: 0.0}
    assert held.holds_back(TWO_OF_THREE, {0}, starved.__getitem__)
    clock.now, starved[0] = began + 1.0, 7.6
    assert held.holds_back(TWO_OF_THREE, {0}, starved.__getitem__)
    clock.now = began + 1.2
    assert not held.holds_back(TWO_OF_THREE, {0}, starved.__getitem__), "it has had 0.6 s by now"
    clock.now, starved[0] = began + MOST_SECONDS, 9.0
    assert held.holds_back(TWO_OF_THREE, {0}, starved.__getitem__)
    clock.now = began + MOST_SECONDS + 0.01
    assert not held.holds_back(TWO_OF_THREE, {0}, starved.__getitem__)


def test_who_has_gone_is_clear_without_the_others(clock: Clock) -> None:
    gone = replace(TWO_OF_THREE, kind=FindingKind.PEER_GONE, ranks=(1,))
    held = Patience()
    starved = {0: 7.0}
    assert held.holds_back(gone, {0}, starved.__getitem__)
    clock.now, starved[0] = clock.now + 1.0, 8.0
    assert not held.holds_back(gone, {0}, starved.__getitem__)


def test_ranks_that_may_be_ending_are_waited_for_while_they_want_a_processor(clock: Clock) -> None:
    gone = replace(TWO_OF_THREE, kind=FindingKind.PEER_GONE, ranks=(1,))
    held = Patience()
    starved = {0: 7.0}
    assert held.holds_back(gone, set(), starved.__getitem__, ending={0})
    clock.now, starved[0] = clock.now + 1.0, 7.6
    assert held.holds_back(gone, set(), starved.__getitem__, ending={0})
    clock.now += 0.2
    assert not held.holds_back(gone, set(), starved.__getitem__, ending={0})


def test_a_rank_that_leaves_a_call_may_go_too(clock: Clock) -> None:
    posted, left = group((0, 2), "blocked", "W", 2), group((3,), "exited")
    gone = replace(mismatch((3,), posted, left, group((1,), "blocked", "W", 1)), kind=FindingKind.PEER_GONE)
    assert coming_ranks(gone) == {1}
    assert coming_ranks(replace(gone, groups=(posted, left, group((1,), "blocked", "other", 1)))) == set()
    assert coming_ranks(replace(gone, groups=(posted, left, group((1,), "killed", "W", 1)))) == set()
    held = Patience()
    starved = {1: 7.0}
    assert held.holds_back(gone, {1}, starved.__getitem__)
    clock.now, starved[1] = clock.now + 1.0, 7.6
    assert held.holds_back(gone, {1}, starved.__getitem__)
    clock.now += 0.2
    assert not held.holds_back(gone, {1}, starved.__getitem__)


def test_ranks_that_wait_for_ever_may_be_explained_by_one_that_is_starved(clock: Clock) -> None:
    deadlock = replace(TWO_OF_THREE, kind=FindingKind.DEADLOCK)
    held = Patience()
    starved = {0: 7.0}
    assert held.holds_back(deadlock, {0}, starved.__getitem__)
    clock.now, starved[0] = clock.now + 1.0, 7.9
    assert held.holds_back(deadlock, {0}, starved.__getitem__)
    assert not held.holds_back(deadlock, set(), starved.__getitem__), "nobody is left who could tell more"


def test_a_rank_that_polls_inside_a_call_is_not_starved(clock: Clock) -> None:
    deadlock = replace(TWO_OF_THREE, kind=FindingKind.DEADLOCK)
    held = Patience()
    starved, inside = {0: 7.0}, {0: 3.0}
    assert held.holds_back(deadlock, {0}, starved.__getitem__, inside)
    clock.now, starved[0] = clock.now + 0.6, 7.4
    assert held.holds_back(deadlock, {0}, starved.__getitem__, {0: 3.0 + LEAVE_SECONDS / 2}), "it had too little"
    assert not held.holds_back(deadlock, {0}, starved.__getitem__, {0: 3.01 + LEAVE_SECONDS}), "it could have left"
    assert held.holds_back(deadlock, {0}, starved.__getitem__, {}), "it has left, and computes"


def test_the_next_finding_is_held_back_anew(clock: Clock) -> None:
    held = Patience()
    assert held.holds_back(TWO_OF_THREE, {0}, lambda rank: 0.0)
    held.forget()
    clock.now += 10
    assert held.holds_back(TWO_OF_THREE, {0}, lambda rank: 0.0)


def test_ranks_come_that_can_still_change_who_is_named() -> None:
    assert coming_ranks(TWO_OF_THREE) == {0}
    here = (group((1,), "blocked", "W", 2), group((0, 2, 3), "blocked", "W", 2))
    assert coming_ranks(mismatch((1,), *here)) == set(), "all are there"
    assert coming_ranks(mismatch((1,), *here, group((4,), "running"))) == set(), "it could not change anything"
    behind = group((4,), "blocked", "W", 1)
    assert coming_ranks(mismatch((1,), *here, behind)) == {4}, "it leaves a call that all have entered"
    assert coming_ranks(mismatch((1, 2), group((1,), "blocked", "W", 2), group((2,), "blocked", "W", 2))) == set()


def test_a_process_that_shares_its_processor_is_starved() -> None:
    processor = min(os.sched_getaffinity(0))
    spin = f"import os; os.sched_setaffinity(0, [{processor}]); print(flush=True)\nwhile True: pass"
    both = [subprocess.Popen([sys.executable, "-c", spin], stdout=subprocess.PIPE) for _ in range(2)]
    try:
        for process in both:
            assert process.stdout is not None
            process.stdout.readline()
        pid = both[0].pid
        before = processor_seconds(pid), starved_seconds(pid)
        time.sleep(0.5)
        had, starved = processor_seconds(pid) - before[0], starved_seconds(pid) - before[1]
    finally:
        for process in both:
            process.kill()
            process.communicate()
    assert had > 0
    assert starved > 0
    assert starved_seconds(pid) == 0.0, "it has gone"
