"""A rank that waits for a key of a store: stuck only if no other rank is left that could set it."""

from __future__ import annotations

from tests.guard.verdict.simulated import WORLD, collective, message

from paceline.guard.shared_memory.layout import OWN_TIMEOUT
from paceline.guard.verdict.diagnose import find_stuck
from paceline.guard.verdict.finding import Cause, FindingKind
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.snapshot import Call, End, EndKind, Membership, RankState, Snapshot, Waiting
from paceline.guard.verdict.waits.stuck_ranks import stuck_ranks
from paceline.guard.verdict.waits.waited_for import ranks_waited_for

BARRIER = collective("torch.barrier", 9, sequence=1)
GET = Call(operation="torch.Store.get", communicator=WORLD, site="train.py:5")


def _waits(rank: int, call: Call) -> RankState:
    positions = {WORLD: call.sequence} if call.sequence else {}
    return RankState(rank=rank, threads=(Waiting(call=call),), positions=positions, history=(call,))


def _inspection(*ranks: RankState) -> Inspection:
    world = Membership(name="WORLD", ranks=tuple(range(len(ranks))))
    return Inspection(Snapshot(ranks=ranks, communicators={WORLD: world}))


def test_ranks_that_wait_for_a_key_and_for_each_other_are_stuck() -> None:
    inspection = _inspection(_waits(0, BARRIER), _waits(1, GET), _waits(2, GET))
    assert stuck_ranks(inspection.snapshot, cautious=True) == frozenset()  # the key may be there already
    finding = find_stuck(inspection, cautious=False)
    assert finding is not None
    assert (finding.kind, finding.ranks) == (FindingKind.DEADLOCK, (1, 2))
    assert finding.cause is Cause.RECEIVE_WITHOUT_SEND
    assert "ranks 1-2 wait in Store.get at train.py:5 for a key that nobody has set" in finding.summary


def test_nobody_is_left_to_set_the_key() -> None:
    gone = [RankState(rank=rank, end=End(kind=EndKind.EXITED)) for rank in (1, 2)]
    finding = find_stuck(_inspection(_waits(0, GET), *gone), cautious=False)
    assert finding is not None
    assert (finding.kind, finding.ranks) == (FindingKind.PEER_GONE, (0,))
    assert "the other ranks have ended" in finding.summary


def test_a_rank_that_runs_may_set_the_key() -> None:
    inspection = _inspection(_waits(0, BARRIER), _waits(1, GET), RankState(rank=2))
    assert stuck_ranks(inspection.snapshot, cautious=False) == frozenset()
    assert ranks_waited_for(inspection.snapshot) == {1, 2}  # both are late for the barrier


def test_a_limit_of_the_script_is_left_to_it() -> None:
    own = Call(operation="torch.Store.wait", communicator=WORLD, site="train.py:5", flags=OWN_TIMEOUT)
    assert stuck_ranks(_inspection(_waits(0, BARRIER), _waits(1, own)).snapshot, cautious=False) == frozenset()


def test_a_deadlock_of_others_is_told_first() -> None:
    receives = [message("torch.recv", 3, peer) for peer in (1, 0)]
    finding = find_stuck(_inspection(_waits(0, receives[0]), _waits(1, receives[1]), _waits(2, GET)), cautious=False)
    assert finding is not None
    assert (finding.cause, finding.ranks) == (Cause.RECEIVE_RECEIVE, (0, 1))
