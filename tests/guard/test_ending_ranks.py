"""What is said of ranks that were killed waits while others may be ending with them, and no longer."""

from __future__ import annotations

import signal
from types import SimpleNamespace
from typing import cast

import pytest

from paceline.guard.judge.ending_ranks import ending_ranks, may_be_of_stop
from paceline.guard.observe.watched_job import WatchedJob
from paceline.guard.verdict.finding import Cause, Finding, FindingField, FindingKind
from paceline.guard.verdict.snapshot import End, EndKind


def _killed(number: int, at_ns: int, *, with_others: bool) -> End:
    return End(kind=EndKind.KILLED, signal=number, at_ns=at_ns, closed_ns=at_ns, with_others=with_others)


def _job(ends: dict[int, End], living: set[int]) -> WatchedJob:
    ranks = {
        rank: SimpleNamespace(process=SimpleNamespace(has_ended=lambda rank=rank: rank not in living))
        for rank in range(3)
    }
    return cast(WatchedJob, SimpleNamespace(ends=lambda: ends, ranks=ranks))


def _finding(kind: FindingKind = FindingKind.PEER_GONE) -> Finding:
    return Finding(
        kind=kind, field=FindingField.OPERATION, ranks=(1,), summary="", cause=Cause.KILLED, advice="", groups=()
    )


@pytest.mark.parametrize(
    ("number", "with_others", "expected"),
    [
        (signal.SIGKILL, False, set()),
        (signal.SIGKILL, True, {0, 2}),
        (signal.SIGTERM, False, {0, 2}),
        (signal.SIGSEGV, True, set()),
    ],
)
def test_living_ranks_are_waited_for_if_the_job_may_be_ending(
    number: int, with_others: bool, expected: set[int]
) -> None:
    job = _job({1: _killed(number, 5, with_others=with_others)}, {0, 2})
    assert ending_ranks(job, _finding()) == expected
    assert not may_be_of_stop(job, _finding()), "one alone is not the whole job"


def test_a_rank_that_says_that_it_ends_lives_until_its_process_has_ended() -> None:
    lost = End(kind=EndKind.RAISED, by_peer=True, at_ns=6)
    job = _job({0: lost, 1: _killed(signal.SIGTERM, 5, with_others=True), 2: lost}, {0})
    assert ending_ranks(job, _finding()) == {0}


def test_a_finding_of_another_kind_does_not_wait() -> None:
    ends = {rank: _killed(signal.SIGTERM, rank + 1, with_others=True) for rank in range(3)}
    job = _job(ends, set())
    assert may_be_of_stop(job, _finding())
    assert not may_be_of_stop(job, _finding(FindingKind.MISMATCH))
    assert ending_ranks(_job(ends, {0}), _finding(FindingKind.MISMATCH)) == set()


def test_one_rank_after_the_other_may_be_told_to_end() -> None:
    def stopped(number: int) -> WatchedJob:
        return _job({rank: _killed(number, rank + 1, with_others=False) for rank in range(3)}, set())

    assert may_be_of_stop(stopped(signal.SIGTERM), _finding())
    assert not may_be_of_stop(stopped(signal.SIGKILL), _finding())
