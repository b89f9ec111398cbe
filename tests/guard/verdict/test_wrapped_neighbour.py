"""A neighbour beyond the end of a line of ranks, computed by modulo, is told as such."""

from __future__ import annotations

import pytest
from tests.guard.verdict.simulated import collective, judge, message

from paceline.guard.verdict.finding import Cause
from paceline.guard.verdict.snapshot import Call, End, EndKind

SIZE = 4


def _line_of_ranks(rank: int, *, steps: int = 2, barrier: bool = True) -> list[Call]:
    """Return a rank that sends to the next one, if there is one, and receives from the one before it by modulo."""
    calls: list[Call] = []
    for _ in range(steps):
        if rank + 1 < SIZE:
            calls.append(message("Bsend", 5, rank + 1))
        calls.append(message("Recv", 6, (rank - 1) % SIZE))
        if barrier:
            calls.append(collective("Barrier", 7))
    return calls


def test_a_receive_across_the_ends_of_a_line_is_told_by_the_ring_that_it_takes_it_for() -> None:
    finding = judge([_line_of_ranks(rank) for rank in range(SIZE)])
    assert (finding.cause, finding.ranks) == (Cause.RECEIVE_WITHOUT_SEND, (0, 3))
    assert finding.summary == (
        "rank 0 receives from rank 3 in Recv at train.py:6 as in a ring, where the other ranks name the rank before "
        "their own; but rank 3 sends nothing to rank 0"
    )
    assert finding.advice == (
        "if ranks are in a line, let rank 0 do without the Recv at train.py:6 (Shift gives MPI.PROC_NULL at an open "
        "edge); if they are in a ring, let rank 3 send to rank 0"
    )


def test_so_it_is_if_the_last_rank_has_ended() -> None:
    ended = End(kind=EndKind.EXITED, detail="came to the end of the script", at_ns=1)
    programs = [_line_of_ranks(rank, steps=1, barrier=False) for rank in range(SIZE)]
    finding = judge(programs, ends=dict.fromkeys(range(1, SIZE), ended))
    assert (finding.cause, finding.ranks) == (Cause.RECEIVE_WITHOUT_SEND, (0, 3))
    assert "as in a ring" in finding.summary


def test_a_send_across_the_ends_of_a_line_is_told_so_too() -> None:
    programs = [[message("Ssend", 6, (rank + 1) % SIZE), collective("Barrier", 7)] for rank in range(SIZE)]
    for rank in range(1, SIZE):
        programs[rank].insert(0, message("Recv", 5, rank - 1))
    finding = judge(programs)
    assert (finding.cause, finding.ranks) == (Cause.SEND_WITHOUT_RECEIVE, (0, 3))
    assert "rank 3 sends to rank 0 in Ssend at train.py:6 as in a ring" in finding.summary
    assert "the rank after their own; but rank 0 receives nothing from rank 3" in finding.summary


@pytest.mark.parametrize("operation", ["Recv", "Ssend"])
def test_a_ring_in_which_all_wait_for_each_other_is_no_line(operation: str) -> None:
    step = -1 if operation == "Recv" else 1
    other = "Ssend" if operation == "Recv" else "Recv"
    programs = [
        [message(operation, 5, (rank + step) % SIZE), message(other, 6, (rank - step) % SIZE)] for rank in range(SIZE)
    ]
    finding = judge(programs)
    assert finding.cause is (Cause.RECEIVE_RECEIVE if operation == "Recv" else Cause.SEND_SEND)
