"""A library that makes every call from one line of the user: its functions tell calls apart, and who left its loop."""

from __future__ import annotations

from paceline.guard.verdict.diagnose import find_certain
from paceline.guard.verdict.finding import Finding
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.snapshot import Call, Membership, RankState, Snapshot, Waiting

BACKWARD, GATHER = ("all_reduce", "backward (trainer.py:9)"), ("all_gather", "log (trainer.py:20)")
SYNC = ("barrier", "setup (trainer.py:3)")


def rank_of(rank: int, *calls: tuple[str, str]) -> RankState:
    history = tuple(
        Call(
            operation=f"torch.{operation}", communicator="world", sequence=number + 1, number=number,
            site="train.py:7", library=(function, "train (trainer.py:2)"), left_ns=number + 1 < len(calls),
        )
        for number, (operation, function) in enumerate(calls)
    )  # fmt: skip
    return RankState(
        rank=rank, history=history, threads=(Waiting(call=history[-1]),), positions={"world": len(history)}
    )


def found(*ranks: RankState) -> Finding:
    known = {"world": Membership(name="WORLD", ranks=tuple(range(len(ranks))))}
    finding = find_certain(Inspection(Snapshot(ranks=list(ranks), communicators=known)))
    assert finding is not None
    assert finding.cause is not None
    return finding


def test_a_rank_that_left_the_loop_of_a_library_made_fewer_steps() -> None:
    finding = found(rank_of(0, SYNC, *[BACKWARD] * 4), rank_of(1, SYNC, *[BACKWARD] * 3, GATHER))
    # of two ranks nothing tells which is right
    assert (finding.ranks, finding.cause.value if finding.cause else "") == ((0, 1), "uneven-steps")
    assert finding.summary == (
        "ranks 0-1 differ: rank 1 made 3 calls of all_reduce at train.py:7, in backward (trainer.py:9), and is "
        "now in all_gather, in log (trainer.py:20); rank 0 makes the 4th"
    )


def test_a_rank_that_stays_in_the_loop_of_a_library_makes_more_steps() -> None:
    usual = [rank_of(rank, SYNC, *[BACKWARD] * 3, GATHER) for rank in range(2)]
    finding = found(*usual, rank_of(2, SYNC, *[BACKWARD] * 4))
    assert (finding.ranks, finding.cause.value if finding.cause else "") == ((2,), "uneven-steps")


def test_without_a_row_of_calls_only_the_difference_is_told_with_the_functions() -> None:
    finding = found(rank_of(0, SYNC, BACKWARD), rank_of(1, SYNC, GATHER))
    assert finding.cause is not None
    assert finding.cause.value == "different-collectives"
    assert "all_reduce at train.py:7, in backward (trainer.py:9)" in finding.summary
    assert "all_gather at train.py:7, in log (trainer.py:20)" in finding.summary
