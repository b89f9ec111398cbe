"""Ranks of several hosts that wait for each other for ever are told by what they called differently before."""

from __future__ import annotations

import pytest
from tests.guard.hosts.linked_job import ALL_REDUCE, BARRIER, LinkedJob, LinkedRank, settled

from paceline.guard.judge.judge import Judge
from paceline.guard.verdict.finding import FindingField, FindingKind


def _wait_on_group(rank: LinkedRank, number: int) -> None:
    group = rank.recorder.communicator("torch-group-1", "group 1", range(3), number)
    assert group is not None
    rank.recorder.begin_collective(group, ALL_REDUCE, depth=1)


def _stuck_job(job: LinkedJob, first_calls: list[int]) -> None:
    """Make calls that all ranks pass; then two wait on the world, and one on a group of all of them."""
    ranks = [job.rank(number) for number in range(3)]
    for rank, operation in zip(ranks, first_calls, strict=True):
        rank.recorder.leave(rank.call(operation))
    for rank in ranks[:2]:
        rank.call(ALL_REDUCE)
    _wait_on_group(ranks[2], 2)
    job.until(lambda: job.num_seen() == 3)


def test_what_was_called_differently_before_is_the_finding(job: LinkedJob, monkeypatch: pytest.MonkeyPatch) -> None:
    _stuck_job(job, [BARRIER, BARRIER, ALL_REDUCE])
    finding = settled(job, Judge(job.head, job.folders[0]), monkeypatch)
    assert (finding.kind, finding.field, finding.ranks) == (FindingKind.MISMATCH, FindingField.OPERATION, (2,))
    assert "ranks 0-1 call barrier" in finding.summary


def test_who_waits_where_is_the_finding_if_nothing_differed_before(
    job: LinkedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    _stuck_job(job, [BARRIER, BARRIER, BARRIER])
    finding = settled(job, Judge(job.head, job.folders[0]), monkeypatch)
    assert finding.kind is FindingKind.DEADLOCK
