"""Ranks that wait for each other on different communicators: which of them has left out a call, and where."""

from __future__ import annotations

from tests.guard.verdict.simulated import SPLIT, certain, collective, judge, stopped, waits

from paceline.guard.shared_memory.layout import STOP_COLLECTIVE
from paceline.guard.verdict.snapshot import Call

_EVERYBODY = (0, 1, 2)
_FENCE, _BARRIER = collective("Win.Fence", 3, SPLIT), collective("Barrier", 4)

_LOOP = """
for step in range(4):
    if has_data(step):
        window.Fence()
    comm.Barrier()
"""


def test_a_call_left_out_in_one_round_is_told_by_the_rounds_before() -> None:
    usual = [_FENCE, _BARRIER] * 4
    odd = [*usual[:4], _BARRIER, *usual[6:]]
    finding = judge([usual, odd, usual], split=_EVERYBODY, source=_LOOP)
    assert (finding.kind, finding.cause, finding.ranks) == ("deadlock", "skipped-call", (1,))
    assert "rank 1 left out the Win.Fence on Split at train.py:3" in finding.summary


def test_a_call_that_one_rank_never_makes_is_told_by_its_condition() -> None:
    source = "if rank != 1:\n    window.Fence()\ncomm.Barrier()\n"
    fence, barrier = collective("Win.Fence", 2, SPLIT), collective("Barrier", 3)
    finding = judge([[fence, barrier], [barrier], [fence, barrier]], split=_EVERYBODY, source=source)
    assert (finding.cause, finding.ranks) == ("rank-conditional-call", (1,))
    assert "they wait there for the other ranks, which wait elsewhere" in finding.summary


def test_a_call_above_the_one_that_a_rank_is_in_was_left_out() -> None:
    source = "window.Fence()\n\ncomm.Barrier()\n"
    fence, barrier = collective("Win.Fence", 1, SPLIT), collective("Barrier", 3)
    finding = judge([[fence, barrier], [fence, barrier], [barrier]], split=_EVERYBODY, source=source)
    assert (finding.cause, finding.ranks) == ("skipped-call", (2,))
    assert "rank 2 came to the Barrier at train.py:3 after 0 calls of Win.Fence at train.py:1" in finding.summary


def test_where_nothing_tells_more_it_is_the_order_of_communicators() -> None:
    one, other = collective("Win.Fence", 5, SPLIT), collective("Barrier", 2)
    finding = judge([[one, other], [one, other], [other, one]], split=_EVERYBODY)
    assert (finding.cause, finding.field, finding.ranks) == ("call-order", "communicator", (2,))


def test_modes_of_a_file_that_differ_are_told() -> None:
    def opens(mode: int) -> Call:
        return collective("File.Open", 7, sequence=1, root=mode)

    finding = certain(
        waits(0, opens(9)), waits(1, opens(9)), stopped(2, opens(2), reason=STOP_COLLECTIVE, positions={"mpi-world": 1})
    )  # fmt: skip
    assert (finding.kind, finding.field, finding.cause, finding.ranks) == ("mismatch", "mode", "mode", (2,))
    assert "with a different mode: mode 9 on ranks 0-1; mode 2 on rank 2" in finding.summary
