"""A rank that fails leaves what it had started: others that wait for its part wait for ever."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.guard.verdict.simulated import WORLD, collective, communicators, message

from paceline.guard.shared_memory.layout import NONBLOCKING
from paceline.guard.verdict.diagnose import find_certain, find_stuck
from paceline.guard.verdict.finding import Cause, Finding, FindingKind
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.snapshot import Call, End, EndKind, RankState, Snapshot, Waiting

RAISED = End(kind=EndKind.RAISED, detail="ValueError: not finite", site="train.py:8", at_ns=5)
REDUCE = collective("Iallreduce", 5, sequence=1, request=1, flags=NONBLOCKING, left_ns=1)
SEND = message("Isend", 5, peer=0, tag=3, request=1, left_ns=1, message_number=1)
RECEIVE = message("Irecv", 5, peer=0, tag=3, request=1, left_ns=1)
WAIT = Call(operation="Wait", communicator=WORLD, site="train.py:9", num_requests=1, number=1)


def waiting(rank: int) -> RankState:
    """Return a rank that waits for the reduction that all have started."""
    return RankState(
        rank=rank, threads=(Waiting(call=WAIT, requests=(REDUCE,)),), positions={WORLD: 1}, posted=(REDUCE,),
        history=(REDUCE, WAIT),
    )  # fmt: skip


def gone(call: Call, end: End = RAISED, **more: object) -> RankState:
    """Return rank 1, which ended after it had started a call."""
    positions = {WORLD: call.sequence} if call.sequence else {}
    values = {"posted": (call,), "positions": positions, "history": (call,), **more}
    return RankState(rank=1, end=end, threads=(), **values)  # type: ignore[arg-type]


def find(*ranks: RankState, cautious: bool = False) -> Finding | None:
    """Return the finding about ranks that can never move."""
    snapshot = Snapshot(ranks=ranks, communicators=communicators(len(ranks)))
    assert find_certain(Inspection(snapshot)) is None  # its part may have been done: only who stays inside can tell
    return find_stuck(Inspection(snapshot), cautious=cautious)


def test_a_reduction_that_a_failed_rank_had_started_never_ends() -> None:
    finding = find(waiting(0), gone(REDUCE), waiting(2))
    assert finding is not None
    assert (finding.kind, finding.ranks, finding.cause) == (FindingKind.PEER_GONE, (1,), Cause.EXCEPTION)
    assert finding.summary == (
        "rank 1 raised at train.py:8 (ValueError: not finite); ranks 0, 2 wait for it in Iallreduce at train.py:5"
    )


@pytest.mark.parametrize(
    "ranks",
    [
        (waiting(0), gone(REDUCE, posted=()), waiting(2)),  # it had waited for its own
        (waiting(0), gone(REDUCE, End(kind=EndKind.EXITED)), waiting(2)),  # it may finish it while it finalises
        (waiting(0), gone(REDUCE), replace(waiting(2), threads=(None,))),  # the part of one that runs may be missing
    ],
)
def test_a_reduction_that_may_still_end_is_left_alone(ranks: tuple[RankState, ...]) -> None:
    assert find(*ranks) is None


def test_a_rank_that_can_still_move_does_not_wait_for_it() -> None:
    """Ranks 3 and 4 are stuck in messages of their own; the reduction may end, since rank 2 still runs."""
    receives = {rank: message("Recv", 12, peer=7 - rank) for rank in (3, 4)}
    stuck = [
        RankState(
            rank=rank, threads=(Waiting(call=call),), positions={WORLD: 1}, posted=(REDUCE,), history=(REDUCE, call)
        )
        for rank, call in receives.items()
    ]
    finding = find(waiting(0), gone(REDUCE), replace(waiting(2), threads=(None,)), *stuck)
    assert finding is not None
    assert (finding.kind, finding.ranks) == (FindingKind.DEADLOCK, (3, 4))


def test_nothing_is_concluded_before_ranks_have_stayed_inside() -> None:
    assert find(waiting(0), gone(REDUCE), waiting(2), cautious=True) is None


def test_a_message_that_a_failed_rank_had_only_started_to_send_never_comes() -> None:
    receive = message("Recv", 9, peer=1, tag=3)
    receiver = RankState(rank=0, threads=(Waiting(call=receive),), history=(receive,))
    sent = {(WORLD, 0, 3): 1}
    finding = find(receiver, gone(SEND, sent=sent))
    assert finding is not None
    assert (finding.kind, finding.ranks, finding.cause) == (FindingKind.PEER_GONE, (1,), Cause.EXCEPTION)
    assert find(receiver, gone(SEND, sent={(WORLD, 0, 3): 2})) is None  # one before it is under way
    assert find(receiver, gone(SEND, sent=sent, posted=())) is None  # it was completed


def test_a_receive_that_a_failed_rank_had_posted_takes_nothing() -> None:
    send = message("Ssend", 9, peer=1, tag=3, message_number=1)
    sender = RankState(rank=0, threads=(Waiting(call=send),), sent={(WORLD, 1, 3): 1}, history=(send,))
    finding = find(sender, gone(RECEIVE))
    assert finding is not None
    assert (finding.kind, finding.ranks, finding.cause) == (FindingKind.PEER_GONE, (1,), Cause.EXCEPTION)
    assert find(sender, gone(RECEIVE), cautious=True) is None
