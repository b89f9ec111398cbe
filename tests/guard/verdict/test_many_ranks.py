"""The verdict on many ranks: its work grows with their number, and not with its square."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from types import FrameType
from typing import Any

import pytest

from paceline.guard.verdict.diagnose import find_certain, find_first_failure, find_stuck
from paceline.guard.verdict.finding import Finding
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.snapshot import Call, End, EndKind, Membership, RankState, Snapshot, Waiting

_WORLD = "w.mpi-world"
_FEW, _MANY = 160, 640
_MOST_GROWTH = 2.5 * _MANY / _FEW  # linear work grows by 4, quadratic by 16

_BEFORE = Call(operation="Barrier", communicator=_WORLD, sequence=1, site="train.py:37", number=0, left_ns=1)
_BARRIER = Call(operation="Barrier", communicator=_WORLD, sequence=2, site="train.py:38", number=1)
_RAISED = End(kind=EndKind.RAISED, detail="ValueError", site="train.py:20", at_ns=5)


def _waiting(rank: int, call: Call, **positions: int) -> RankState:
    begun = {name.replace("world", _WORLD): number for name, number in positions.items()}
    return RankState(rank=rank, threads=(Waiting(call=call),), positions=begun, history=(_BEFORE, call))


def _job(ranks: list[RankState], communicators: dict[str, tuple[int, ...]] | None = None) -> Snapshot:
    members = {_WORLD: tuple(range(len(ranks)))} | (communicators or {})
    return Snapshot(ranks=ranks, communicators={name: Membership(name=name, ranks=of) for name, of in members.items()})


def _in_barrier(rank: int) -> RankState:
    return _waiting(rank, _BARRIER, world=2)


def _gone(rank: int) -> RankState:
    return RankState(rank=rank, end=_RAISED, positions={_WORLD: 1}, history=(_BEFORE,))


def _half_gone(num_ranks: int) -> Snapshot:
    return _job([_gone(rank) if rank % 2 else _in_barrier(rank) for rank in range(num_ranks)])


def _all_killed(num_ranks: int) -> Snapshot:
    killed = [End(kind=EndKind.KILLED, signal=9, at_ns=5 + rank) for rank in range(num_ranks)]
    return _job([replace(_in_barrier(rank), end=killed[rank]) for rank in range(num_ranks)])


def _ring_of_receives(num_ranks: int) -> Snapshot:
    receive = Call(operation="Recv", communicator=_WORLD, tag=0, site="ring.py:5", number=1)
    return _job([_waiting(rank, replace(receive, peer=(rank + 1) % num_ranks), world=1) for rank in range(num_ranks)])


def _one_receives(num_ranks: int) -> Snapshot:
    receive = Call(operation="Recv", communicator=_WORLD, peer=0, tag=0, site="train.py:60", number=1)
    ranks = [_in_barrier(rank) for rank in range(num_ranks)]
    return _job([*ranks[:-1], _waiting(num_ranks - 1, receive, world=1)])


def _half_sends(num_ranks: int) -> Snapshot:
    send = Call(operation="Ssend", communicator=_WORLD, peer=0, tag=0, site="train.py:60", message_number=1, number=1)
    half = num_ranks // 2
    return _job([_in_barrier(r) if r < half else _waiting(r, send, world=1) for r in range(num_ranks)])


def _groups(num_ranks: int) -> Snapshot:
    """Rows of eight, and columns across them: all but one row are in their columns, one of that row in neither."""
    rows = {f"row{at}": tuple(range(at * 8, at * 8 + 8)) for at in range(num_ranks // 8)}
    columns = {f"column{at}": tuple(range(at, num_ranks, 8)) for at in range(8)}

    def inside(rank: int, communicator: str) -> RankState:
        call = Call(operation="Barrier", communicator=communicator, sequence=1, site="train.py:50", number=1)
        return _waiting(rank, call, **{"world": 1, communicator: 1})

    ranks = [inside(rank, f"column{rank % 8}" if rank >= 8 else "row0") for rank in range(num_ranks)]
    ranks[3] = _in_barrier(3)
    return _job(ranks, rows | columns)


def _stuck(inspection: Inspection) -> Finding | None:
    return find_stuck(inspection, cautious=True)


@pytest.mark.parametrize(
    ("job", "judge"),
    [
        (_half_gone, find_certain),
        (_half_gone, find_first_failure),
        (_all_killed, find_certain),
        (_ring_of_receives, _stuck),
        (_one_receives, _stuck),
        (_half_sends, _stuck),
        (_groups, _stuck),
    ],
)
def test_work_grows_with_the_number_of_ranks(
    job: Callable[[int], Snapshot], judge: Callable[[Inspection], Finding | None]
) -> None:
    few, many = (_num_calls(judge, Inspection(job(num_ranks))) for num_ranks in (_FEW, _MANY))
    assert many < few * _MOST_GROWTH


def _num_calls(judge: Callable[[Inspection], Finding | None], inspection: Inspection) -> int:
    """Return how many steps of Python a judgement takes: functions called and generators resumed."""
    number = 0

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal number
        number += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        judge(inspection)
    finally:
        sys.setprofile(before)
    return number
