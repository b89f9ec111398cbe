"""A send that mpi4py refuses was counted before it was made: whoever waits for its message never gets it."""

from __future__ import annotations

import pytest
from tests.guard.verdict.simulated import WORLD, communicators, message, waits

from paceline.guard.verdict.diagnose import find_stuck
from paceline.guard.verdict.finding import Cause, FindingKind
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.snapshot import Call, End, EndKind, RankState, Snapshot

SEND = message("Send", 4, peer=1, tag=3, number=0)
RECEIVE = message("Recv", 9, peer=0, tag=3)
RAISED = End(kind=EndKind.RAISED, detail="BufferError: not contiguous", site="train.py:4", failed_call=0)


def sender(end: End | None, call: Call = SEND, num_sent: int = 1) -> RankState:
    """Return rank 0, which has counted messages to rank 1."""
    threads = () if end is not None else (None,)
    return RankState(rank=0, end=end, threads=threads, sent={(WORLD, 1, 3): num_sent}, history=(call,))


def snapshot(first: RankState, num_received: int = 0) -> Snapshot:
    """Return two ranks, the second of which waits for a message of the first."""
    receiver = waits(1, RECEIVE, received={(WORLD, 0, 3): num_received})
    return Snapshot(ranks=(first, receiver), communicators=communicators(2))


@pytest.mark.parametrize("num_earlier", [0, 2])
def test_a_rank_that_waits_for_a_refused_message_is_stuck(num_earlier: int) -> None:
    job = snapshot(sender(RAISED, num_sent=num_earlier + 1), num_received=num_earlier)
    finding = find_stuck(Inspection(job), cautious=False)
    assert finding is not None
    assert (finding.kind, finding.cause, finding.ranks) == (FindingKind.PEER_GONE, Cause.EXCEPTION, (0,))


@pytest.mark.parametrize(
    "first",
    [
        sender(RAISED, num_sent=2),  # one before it is still under way
        sender(End(kind=EndKind.EXITED)),  # it was caught, so nobody knows what it said
        sender(End(kind=EndKind.RAISED, failed_call=7)),  # another call raised
        sender(End(kind=EndKind.RAISED)),  # no call raised
        sender(RAISED, message("Sendrecv", 4, peer=1, tag=3, number=0)),  # the other half may have failed
        sender(None),
    ],
)
def test_a_message_that_may_be_under_way_may_still_come(first: RankState) -> None:
    assert find_stuck(Inspection(snapshot(first)), cautious=False) is None
