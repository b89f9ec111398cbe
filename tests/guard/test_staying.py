"""How long a call that a library may complete is given before its rank counts as waiting."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.guard.verdict.simulated import communicators, message, waits

from paceline.guard.judge.staying import STAY_SECONDS, stay_seconds
from paceline.guard.verdict.snapshot import Call, End, EndKind, Membership, RankState, Snapshot, Waiting

LEFT = RankState(rank=1, end=End(kind=EndKind.EXITED, detail="came to the end of the script"), threads=(None,))
LIVES = RankState(rank=1)


def patience(call: Call, other: RankState) -> float:
    return stay_seconds(Snapshot(ranks=(waits(0, call), other), communicators=communicators(2)), [0])


@pytest.mark.parametrize("operation", ["Send", "send", "Send_init"])
def test_a_small_send_to_a_rank_that_finalises_has_seconds(operation: str) -> None:
    """Open MPI completes it while the other finalises, which may take that long."""
    send = message(operation, 4, peer=1, num_bytes=16)
    assert patience(send, LEFT) > 4
    assert patience(send, LIVES) == STAY_SECONDS


def test_so_has_a_wait_for_one() -> None:
    send = message("Isend", 4, peer=1, num_bytes=16)
    waiting = RankState(rank=0, threads=(Waiting(call=Call(operation="Wait"), requests=(send,)),))
    assert stay_seconds(Snapshot(ranks=(waiting, LEFT), communicators=communicators(2)), [0]) > 4


@pytest.mark.parametrize(
    "call",
    [
        message("Send", 4, peer=1, num_bytes=1 << 20),
        message("Ssend", 4, peer=1, num_bytes=16),
        message("Recv", 4, peer=1, num_bytes=16),
        message("torch.send", 4, peer=1, num_bytes=16),
    ],
    ids=lambda call: call.operation,
)
def test_what_cannot_complete_there_has_no_more_time_than_elsewhere(call: Call) -> None:
    assert patience(call, LEFT) == STAY_SECONDS


def test_a_send_to_a_rank_that_lives_has_no_more_time_because_another_has_left() -> None:
    ranks = (waits(0, message("Send", 4, peer=2, num_bytes=16)), LEFT, RankState(rank=2))
    assert stay_seconds(Snapshot(ranks=ranks, communicators=communicators(3)), [0]) == STAY_SECONDS


def test_a_send_to_nobody_knows_whom_may_go_to_one_that_has_left() -> None:
    send = message("Send", 4, peer=1, num_bytes=16)
    assert stay_seconds(Snapshot(ranks=(waits(0, send), None), communicators=communicators(2)), [0]) > 4
    assert stay_seconds(Snapshot(ranks=(waits(0, send), LIVES), communicators={}), [0]) > 4


def test_a_send_to_a_rank_that_has_finalised_has_seconds() -> None:
    assert patience(message("Send", 4, peer=1, num_bytes=16), RankState(rank=1, finalized_at="train.py:9")) > 4


@pytest.mark.parametrize("rank", [-1, 7])
def test_a_member_that_the_job_does_not_have_ends_no_judge(rank: int) -> None:
    known = {"world": Membership(name="WORLD", ranks=(0, rank))}
    send = replace(message("Send", 4, peer=1, num_bytes=16), communicator="world")
    assert stay_seconds(Snapshot(ranks=(waits(0, send), LIVES), communicators=known), [0]) > 4
