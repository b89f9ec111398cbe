"""Communicators with two sides: who needs whom across, and what may differ from one side to the other."""

from __future__ import annotations

from typing import Any

from tests.guard.verdict.simulated import WORLD, collective, message, source_of, waits

from paceline.guard.shared_memory.layout import ANY, NOTHING
from paceline.guard.verdict.diagnose import find_certain, find_stuck
from paceline.guard.verdict.finding import Cause, FindingField, FindingKind
from paceline.guard.verdict.first_difference import find_first_difference
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.rules.argument import wrong_argument
from paceline.guard.verdict.rules.mismatch import compare
from paceline.guard.verdict.snapshot import Call, End, EndKind, Membership, Position, RankState, Snapshot, Waiting
from paceline.guard.verdict.waits.stuck_ranks import stuck_ranks

BETWEEN = "inter-2-77ab"  # ranks 0 and 1 on one side, 2 to 4 on the other
LOW, HIGH, LEADERS = "low", "high", "leaders"


def _snapshot(*ranks: RankState | None) -> Snapshot:
    known = {
        WORLD: Membership(name="WORLD", ranks=(0, 1, 2, 3, 4)),
        BETWEEN: Membership(name="Create_intercomm", ranks=(0, 1, 2, 3, 4), num_first=2),
        LOW: Membership(name="Split", ranks=(0, 1)),
        HIGH: Membership(name="Split", ranks=(2, 3, 4)),
        LEADERS: Membership(name="the leaders", ranks=(0, 2)),
    }
    return Snapshot(ranks=ranks, communicators=known)


def _bcast(line: int, root: int, **fields: Any) -> Call:
    return collective("bcast", line, BETWEEN, sequence=1, root=root, **fields)


def _running(rank: int) -> RankState:
    return RankState(rank=rank)


def test_a_side_waits_for_the_other_in_a_barrier_and_not_certainly_for_itself() -> None:
    barrier = collective("Barrier", 9, BETWEEN, sequence=1)
    world = collective("Barrier", 10, sequence=1)
    # rank 4 has left it out, and waits for all
    ranks = [*(waits(rank, barrier) for rank in range(4)), waits(4, world)]
    assert stuck_ranks(_snapshot(*ranks), cautious=True) == {0, 1, 4}
    assert stuck_ranks(_snapshot(*ranks), cautious=False) == {0, 1, 2, 3, 4}


def test_only_the_other_side_can_send_what_a_receive_from_anybody_takes() -> None:
    receive = message("recv", 3, ANY, communicator=BETWEEN)
    gone = End(kind=EndKind.EXITED, detail="exited")
    others = [RankState(rank=rank, end=gone) for rank in (2, 3, 4)]
    assert stuck_ranks(_snapshot(waits(0, receive), _running(1), *others), cautious=True) == {0}
    others = [_running(2), *others[1:]]
    assert stuck_ranks(_snapshot(waits(0, receive), _running(1), *others), cautious=True) == frozenset()


def test_what_ranks_beside_the_root_give_fits_any_root() -> None:
    calls = {0: _bcast(3, 0), 1: _bcast(3, NOTHING, reduction="unknown"), 2: _bcast(5, 0), 3: _bcast(5, 0)}
    assert compare(calls) is None
    assert compare({**calls, 4: _bcast(5, 1)}) == (FindingField.ROOT, (4,))


def test_a_wrong_root_is_told_without_those_that_do_not_name_one() -> None:
    ranks = [waits(0, _bcast(3, 0)), waits(1, _bcast(3, NOTHING)), *(waits(rank, _bcast(5, 1)) for rank in (2, 3, 4))]
    finding = find_certain(Inspection(_snapshot(*ranks)))
    assert finding is not None
    assert (finding.kind, finding.field, finding.ranks) == (FindingKind.MISMATCH, FindingField.ROOT, (0,))
    assert "root 1 on ranks 2-4; root 0 on rank 0 (call 1" in finding.summary


def test_lines_of_the_two_sides_may_differ() -> None:
    ranks = [waits(0, _bcast(3, 0)), waits(1, _bcast(4, NOTHING)), *(waits(rank, _bcast(5, 0)) for rank in (2, 3, 4))]
    inspection = Inspection(_snapshot(*ranks))
    assert find_first_difference(inspection, Position(BETWEEN, 1)) is None
    ranks[4] = waits(4, collective("Barrier", 5, BETWEEN, sequence=1))
    differing = find_first_difference(Inspection(_snapshot(*ranks)), Position(BETWEEN, 1))
    assert differing is not None
    assert differing.by_line() == [(0, 1, 2, 3), (4,)]


def test_a_rank_that_the_other_side_does_not_have_is_named_with_its_limit() -> None:
    call = message("send", 3, -1003, communicator=BETWEEN)
    failed = End(kind=EndKind.RAISED, failed_call=0)
    state = RankState(rank=2, end=failed, history=(call,))
    inspection = Inspection(_snapshot(_running(0), _running(1), state, _running(3), _running(4)))
    assert wrong_argument(inspection, call) is FindingField.SOURCE
    finding = find_certain(inspection)
    assert finding is not None
    assert "the other side of Create_intercomm has ranks 0 to 1" in finding.summary


def _leader(rank: int, side: str) -> RankState:
    """Return the leader of a side, which needs its side and the other leader."""
    made = [
        collective("Create_intercomm", 4, side, sequence=1),
        collective("Create_intercomm (leaders)", 4, LEADERS, sequence=1, number=1),
    ]
    call = Call(operation="Create_intercomm (leader)", site="train.py:4", number=2)
    waiting = Waiting(call=call, requests=tuple(made))
    return RankState(rank=rank, threads=(waiting,), positions={side: 1, LEADERS: 1}, history=(*made, call))


def _member(rank: int, side: str) -> RankState:
    return waits(rank, collective("Create_intercomm", 4, side, sequence=1))


def test_who_left_out_the_call_that_makes_an_intercommunicator_is_named() -> None:
    late = waits(4, collective("Barrier", 5, sequence=1))
    inspection = Inspection(
        _snapshot(_leader(0, LOW), _member(1, LOW), _leader(2, HIGH), _member(3, HIGH), late),
        source_of("from mpi4py import MPI\nlow = rank < 2\nif rank != 4:\n    make()\nbarrier()\n"),
    )
    finding = find_stuck(inspection, cautious=True)
    assert finding is not None
    assert (finding.cause, finding.ranks) == (Cause.SKIPPED_CALL, (4,))
    assert "rank 4 left out the Create_intercomm at train.py:4" in finding.summary


def test_a_leader_waits_for_the_other_leader() -> None:
    late = [waits(rank, collective("Barrier", 5, sequence=1)) for rank in (2, 3, 4)]
    snapshot = _snapshot(_leader(0, LOW), _member(1, LOW), *late)
    assert stuck_ranks(snapshot, cautious=True) == {0, 2, 3, 4}
    source = source_of("a = 1\nlow = rank < 2\nif low:\n    make()\nbarrier()\n")
    finding = find_stuck(Inspection(snapshot, source), cautious=True)
    assert finding is not None
    assert (finding.cause, finding.ranks) == (Cause.SKIPPED_CALL, (2, 3, 4))
