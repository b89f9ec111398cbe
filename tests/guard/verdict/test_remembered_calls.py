"""Ranks remember some of their calls: what came before is not taken for what has never been."""

from __future__ import annotations

import pytest
from tests.guard.verdict.simulated import WORLD, communicators

from paceline.guard.verdict.diagnose import find_certain
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.snapshot import Call, RankState, Snapshot, Waiting

_SOURCE = """
def sync():
    all_reduce(gradient)
def evaluate():
    all_reduce(metric)
class Trainer:
    def fit(self):
        self.run()
        self.after()
"""
_NUM_REMEMBERED, _NUM_FORGOTTEN = 50, 900


def _all_reduce(sequence: int, line: int, caller: int, at_site: int) -> Call:
    return Call(
        operation="torch.all_reduce", communicator=WORLD, sequence=sequence, number=sequence, site=f"t.py:{line}",
        callers=(f"t.py:{caller}",), at_site=at_site, reduction="SUM", dtype="f4", num_bytes=line, count=line,
    )  # fmt: skip


@pytest.mark.parametrize(("times", "is_alone"), [(1, True), (46, False)])
def test_only_a_call_that_is_new_to_a_rank_can_be_its_alone(times: int, is_alone: bool) -> None:
    first, last = _NUM_FORGOTTEN, _NUM_FORGOTTEN + _NUM_REMEMBERED
    past = tuple(_all_reduce(sequence, 3, 8, sequence) for sequence in range(first, last))
    now = [_all_reduce(last, 3, 8, last), _all_reduce(last, 3, 8, last), _all_reduce(last, 5, 9, times)]
    ranks = [
        RankState(rank=rank, threads=(Waiting(call=call),), positions={WORLD: last}, history=(*past, call))
        for rank, call in enumerate(now)
    ]
    snapshot = Snapshot(ranks=ranks, communicators=communicators(3))
    finding = find_certain(Inspection(snapshot, lambda path: _SOURCE))
    assert finding is not None
    assert ("which no other rank has made" in finding.summary) is is_alone
