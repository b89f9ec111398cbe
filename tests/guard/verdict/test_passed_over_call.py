"""Ranks on different communicators: who has passed over a call, and when nothing tells that."""

from __future__ import annotations

import pytest
from tests.guard.verdict.simulated import SPLIT, collective, judge

from paceline.guard.verdict.snapshot import Call

_ONCE = """
if is_member:
    half = comm.Create_group(group)
comm.Barrier()
"""
GROUP, BARRIER = collective("Create_group", 2, SPLIT), collective("Barrier", 3)


@pytest.mark.parametrize(
    ("members", "makers", "cause", "odd"),
    [
        ((0, 1, 2), (0, 1), "skipped-call", (2,)),
        ((0, 1, 2), (0,), "rank-conditional-call", (0,)),
        ((0, 1), (0,), "different-collectives", (0, 1)),  # one of two: nothing tells which is right
    ],
)
def test_a_member_that_stands_below_a_call_has_passed_over_it(
    members: tuple[int, ...], makers: tuple[int, ...], cause: str, odd: tuple[int, ...]
) -> None:
    programs = [[GROUP, BARRIER] if rank in makers else [BARRIER] for rank in range(5)]
    finding = judge(programs, split=members, source=_ONCE)
    assert (finding.kind, finding.cause, finding.ranks, finding.field) == ("deadlock", cause, odd, None)
    late = "rank 2" if makers == (0, 1) else "ranks 1-2" if len(members) == 3 else "rank 1"
    waits = "ranks 0-1 wait" if len(makers) == 2 else "rank 0 waits"
    assert finding.summary.startswith(
        f"{late} came to the Barrier on WORLD at train.py:3 without the Create_group on Split at train.py:2, in which "
        f"{waits} for "
    )


def test_a_call_left_out_in_the_first_round_of_a_loop() -> None:
    source = "for step in range(3):\n    if batch:\n        half.Allreduce()\n    comm.Allreduce()\n"
    half, world = collective("Allreduce", 3, SPLIT), collective("Allreduce", 4)
    finding = judge([[half, world]] * 2 + [[world]] + [[world]], split=(0, 1, 2), source=source)
    assert (finding.cause, finding.ranks) == ("skipped-call", (2,))


_BRANCHES = """
if rank < 2:
    half.Barrier()
    comm.Barrier()
else:
    comm.Barrier()
    half.Barrier()
"""


def _crossed(lines: tuple[int, int, int, int]) -> list[list[Call]]:
    one = [collective("Barrier", lines[0], SPLIT), collective("Barrier", lines[1])]
    other = [collective("Barrier", lines[2]), collective("Barrier", lines[3], SPLIT)]
    return [one, one, other, other]


@pytest.mark.parametrize(("source", "cause"), [(_BRANCHES, "call-order"), ("", "different-collectives")])
def test_it_is_the_order_of_communicators_only_where_the_source_shows_it(source: str, cause: str) -> None:
    finding = judge(_crossed((2, 3, 5, 6)), split=(0, 1, 2, 3), source=source)
    assert (finding.cause, finding.ranks) == (cause, (0, 1, 2, 3))


def test_branches_that_make_different_calls_do_not_show_an_order() -> None:
    source = _BRANCHES.replace("    half.Barrier()\n    comm.Barrier()\nelse", "    half.Barrier()\nelse")
    finding = judge([[collective("Barrier", 2, SPLIT)]] * 2 + [[collective("Barrier", 4)]] * 2, split=(0, 1, 2, 3), source=source)  # fmt: skip  # noqa: E501
    assert finding.cause != "call-order"
