"""Random jobs with windows and neighbours: right ones give no finding, stuck ones do, and who is stuck never moves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DataObject
from tests.guard.simulation import Job

from paceline.guard.shared_memory.layout import (
    ANY,
    COMPLETE_TOKEN,
    EXCLUSIVE_LOCK,
    POST_TOKEN,
    SHARED_LOCK,
    WINDOW_PREFIX,
)
from paceline.guard.verdict.diagnose import find_certain, find_stuck
from paceline.guard.verdict.finding import Finding
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.member_numbers import MembersLeft, with_member_numbers
from paceline.guard.verdict.rank_facts.edges import Edges
from paceline.guard.verdict.snapshot import Call, End, EndKind, Membership, RankState, Snapshot, Waiting
from paceline.guard.verdict.waits.stuck_ranks import stuck_ranks
from paceline.guard.verdict.waits.waited_for import ranks_waited_for

_WORLD, _GRID, _WINDOW = "world.mpi-world", "world.mpi-grid", f"world.{WINDOW_PREFIX}1"

Programs = list[list[Call]]


@st.composite
def jobs(draw: st.DrawFn) -> tuple[Programs, Job]:
    """Draw a correct job: events that cannot block each other, dealt to the ranks."""
    size = draw(st.integers(2, 6))
    everybody = tuple(range(size))
    names = ((_WORLD, "WORLD"), (_GRID, "Cart"), (_WINDOW, "Win"))
    communicators = {identity: Membership(name=name, ranks=everybody) for identity, name in names}
    edges = draw(st.sets(st.tuples(st.integers(0, size - 1), st.integers(0, size - 1))))
    neighbours = {
        rank: tuple(sorted({one for edge in edges if rank in edge for one in edge} - {rank})) for rank in everybody
    }
    ranks: Programs = [[] for _ in everybody]
    groups: dict[int, tuple[int, ...]] = {}
    for line in range(draw(st.integers(1, 10))):
        event = draw(st.sampled_from((_add_collective, _add_neighbours, _add_epoch, _add_lock)))
        event(draw, ranks, groups, line)
    for program in ranks:
        program.append(Call(operation="Win.Free", communicator=_WINDOW, site="job.py:99"))
    job = Job(
        ranks, communicators, buffers=draw(st.booleans()), ends={}, neighbours={_GRID: neighbours}, groups=groups
    )  # fmt: skip
    return ranks, job


def _add_collective(draw: st.DrawFn, ranks: Programs, groups: dict[int, tuple[int, ...]], line: int) -> None:
    name, operation = draw(st.sampled_from([(_WORLD, "Barrier"), (_WINDOW, "Win.Fence")]))
    for program in ranks:
        program.append(Call(operation=operation, communicator=name, site=f"job.py:{line}"))


def _add_neighbours(draw: st.DrawFn, ranks: Programs, groups: dict[int, tuple[int, ...]], line: int) -> None:
    for program in ranks:
        program.append(Call(operation="Neighbor_alltoall", communicator=_GRID, site=f"job.py:{line}"))


def _add_epoch(draw: st.DrawFn, ranks: Programs, groups: dict[int, tuple[int, ...]], line: int) -> None:
    members = st.sets(st.integers(0, len(ranks) - 1), min_size=1)
    targets, origins = sorted(draw(members)), sorted(draw(members))
    groups[2 * line + 1], groups[2 * line + 2] = tuple(targets), tuple(origins)
    for rank in targets:
        ranks[rank].append(_epoch("Win.Post", 2 * line + 2, COMPLETE_TOKEN, line))
    for rank in origins:
        ranks[rank] += [_epoch(f"Win.{name}", 2 * line + 1, POST_TOKEN, line) for name in ("Start", "Complete")]
    for rank in targets:
        ranks[rank].append(_epoch("Win.Wait", 2 * line + 2, COMPLETE_TOKEN, line))


def _epoch(operation: str, group: int, token: int, line: int) -> Call:
    return Call(operation=operation, communicator=_WINDOW, members_hash=group, tag=token, site=f"job.py:{line}")


def _add_lock(draw: st.DrawFn, ranks: Programs, groups: dict[int, tuple[int, ...]], line: int) -> None:
    rank, target = draw(st.integers(0, len(ranks) - 1)), draw(st.integers(-1, len(ranks) - 1))
    kind = SHARED_LOCK if target < 0 else draw(st.sampled_from((SHARED_LOCK, EXCLUSIVE_LOCK)))
    ending = "_all" if target < 0 else ""
    names = [f"Win.Lock{ending}", f"Win.Flush{ending}", f"Win.Unlock{ending}"]
    peer = ANY if target < 0 else target
    for name in names:
        ranks[rank].append(Call(operation=name, communicator=_WINDOW, peer=peer, tag=kind, site=f"job.py:{line}"))


def _judge(job: Job, *, cautious: bool) -> Finding | None:
    inspection = Inspection(job.snapshot())
    return find_certain(inspection) or find_stuck(inspection, cautious=cautious)


def _ready(job: Job) -> list[int]:
    return [rank for rank in range(len(job.ranks)) if job.can_move(rank)]


@settings(max_examples=200)
@given(jobs(), st.data())
def test_a_correct_job_gives_no_finding_at_any_moment(drawn: tuple[Programs, Job], data: DataObject) -> None:
    _, job = drawn
    chooser = data.draw(st.randoms(use_true_random=False))
    while ready := _ready(job):
        job.move(chooser.choice(ready))
        assert _judge(job, cautious=True) is None
        # a library that waits late is still in a call that would wait: only after a while is that certain
        assert job.buffers or _judge(job, cautious=False) is None
    assert all(rank.ended for rank in job.ranks), "the simulated job is not correct"


@settings(max_examples=300)
@given(jobs(), st.data())
def test_whoever_is_stuck_never_moves_and_a_job_that_stands_still_gives_a_finding(
    drawn: tuple[Programs, Job], data: DataObject
) -> None:
    ranks, job = drawn
    places = [(rank, at) for rank, calls in enumerate(ranks) for at in range(len(calls))]
    if not places:
        return
    rank, at = data.draw(st.sampled_from(places))
    del ranks[rank][at : data.draw(st.integers(at + 1, len(ranks[rank])))]
    chooser = data.draw(st.randoms(use_true_random=False))
    stuck: frozenset[int] = frozenset()
    while ready := _ready(job):
        mover = chooser.choice(ready)
        assert mover not in stuck
        job.move(mover)
        stuck |= stuck_ranks(job.snapshot(), cautious=job.buffers)
    if not all(one.ended for one in job.ranks):
        assert _judge(job, cautious=False) is not None


# Single situations.


def _inside(rank: int, call: Call, **more: Any) -> RankState:
    positions = {call.communicator: call.sequence} if call.sequence else {}
    return RankState(
        rank=rank, threads=(Waiting(call=call),), positions=positions, history=(call,), **more
    )  # fmt: skip


def _snapshot(*ranks: RankState, groups: dict[int, tuple[int, ...]] | None = None) -> Snapshot:
    everybody = tuple(range(len(ranks)))
    names = ((_WORLD, "WORLD"), (_GRID, "Cart"), (_WINDOW, "Win"))
    communicators = {identity: Membership(name=name, ranks=everybody) for identity, name in names}
    return Snapshot(ranks=ranks, communicators=communicators, new_groups=groups or {})


_BARRIER = Call(operation="Barrier", communicator=_WORLD, sequence=1, site="job.py:9", number=5)
_LOCK = Call(operation="Win.Lock", communicator=_WINDOW, peer=0, tag=EXCLUSIVE_LOCK, site="job.py:4")
_FENCE = Call(operation="Win.Fence", communicator=_WINDOW, sequence=1, site="job.py:4")
_HELD = {(_WINDOW, 0, EXCLUSIVE_LOCK): 1}


def test_a_lock_that_a_waiting_rank_holds_is_told_with_the_line_that_took_it() -> None:
    taken = replace(_LOCK, left_ns=1)
    holder = replace(_inside(1, _BARRIER, held=_HELD), history=(taken, _BARRIER))
    snapshot = _snapshot(_inside(0, _BARRIER), holder, _inside(2, replace(_LOCK, site="job.py:7")))
    assert find_stuck(Inspection(snapshot), cautious=True) is None
    finding = find_stuck(Inspection(snapshot), cautious=False)
    assert finding is not None
    assert (finding.kind, finding.cause, finding.ranks) == ("deadlock", "lock-not-released", (1,))
    assert "rank 2 waits in Win.Lock at job.py:7 for the lock of rank 0 in Win; rank 1 took it at job.py:4" in (
        finding.summary
    )


def test_a_lock_is_not_stuck_while_its_target_or_its_holder_runs() -> None:
    waits = _inside(2, replace(_LOCK, site="job.py:7"))
    holder = _inside(1, _BARRIER, held=_HELD)
    assert not stuck_ranks(_snapshot(RankState(rank=0), holder, waits), cautious=False)
    runs = RankState(rank=1, held=_HELD)
    assert not stuck_ranks(_snapshot(_inside(0, _BARRIER), runs, waits), cautious=False)


@pytest.mark.parametrize(("held", "asked", "stuck"), [(0, 0, False), (0, 1, True), (1, 0, True)])
def test_shared_locks_go_together(held: int, asked: int, stuck: bool) -> None:
    holder = _inside(0, _BARRIER, held={(_WINDOW, ANY, held): 1})
    waits = _inside(1, replace(_LOCK, tag=asked))
    assert (1 in stuck_ranks(_snapshot(holder, waits), cautious=False)) is stuck


def test_a_call_that_may_return_early_needs_nobody_before_it_is_known_to_be_stuck() -> None:
    gone = RankState(rank=1, end=End(kind=EndKind.EXITED, exit_code=0))
    snapshot = _snapshot(_inside(0, _FENCE), gone)
    assert find_certain(Inspection(snapshot)) is None
    assert find_stuck(Inspection(snapshot), cautious=True) is None
    finding = find_stuck(Inspection(snapshot), cautious=False)
    assert finding is not None
    assert (finding.kind, finding.ranks) == ("peer-gone", (1,))
    returned = RankState(rank=0, positions={_WINDOW: 1}, history=(replace(_FENCE, left_ns=7),))
    assert find_certain(Inspection(_snapshot(returned, gone))) is None
    assert find_certain(Inspection(_snapshot(replace(returned, history=()), gone))) is None  # it is long past it


@pytest.mark.parametrize(
    ("neighbours", "stuck"),
    [((2,), {0, 2}), ((1,), set()), ((), set()), (None, set())],  # rank 1 runs; None: rank 0 could not tell
)
def test_a_rank_needs_its_neighbours_and_nobody_else(neighbours: tuple[int, ...] | None, stuck: set[int]) -> None:
    call = Call(operation="Neighbor_alltoall", communicator=_GRID, sequence=1, site="job.py:4")
    waits = _inside(0, call, neighbours={} if neighbours is None else {_GRID: neighbours})
    snapshot = _snapshot(waits, RankState(rank=1), _inside(2, _BARRIER))
    assert not stuck_ranks(snapshot, cautious=True)
    assert stuck_ranks(snapshot, cautious=False) == stuck
    assert ranks_waited_for(snapshot) == {1}


def test_a_rank_waits_for_a_neighbour_that_does_not_send_to_it() -> None:
    call = Call(operation="Neighbor_alltoall", communicator=_GRID, sequence=1, site="job.py:4")

    def inside(rank: int, sources: tuple[int, ...], destinations: tuple[int, ...]) -> RankState:
        neighbours = tuple(sorted({*sources, *destinations}))
        return _inside(rank, call, neighbours={_GRID: neighbours}, edges={_GRID: Edges(sources, destinations)})

    one_sided = _snapshot(inside(0, (1, 2), (1,)), inside(1, (0,), (0,)), inside(2, (), ()))
    finding = find_stuck(Inspection(one_sided), cautious=True)
    assert finding is not None
    assert (finding.ranks, finding.cause) == ((0, 2), "receive-without-send")
    assert "rank 0 receives from rank 2 on Cart, but rank 2 does not send to rank 0 there" in finding.summary
    both_sided = _snapshot(inside(0, (1, 2), (1,)), inside(1, (0,), (0,)), inside(2, (), (0,)))
    assert not stuck_ranks(both_sided, cautious=False)
    with_one_that_cannot_tell = _snapshot(inside(0, (1, 2), (1,)), inside(1, (0,), (0,)), _inside(2, call))
    assert not stuck_ranks(with_one_that_cannot_tell, cautious=False)


def test_neighbours_that_are_not_looked_at_in_a_large_job_are_not_waited_for() -> None:
    call = Call(operation="Neighbor_alltoall", communicator=_GRID, sequence=1, site="job.py:4")
    left = MembersLeft((0, 1), {0: 0, 7: 1})  # of eight members, two are looked at
    ranks = [
        with_member_numbers(
            _inside(rank, call, neighbours={_GRID: others}, edges={_GRID: Edges(others, others)}),
            lambda _, member: left.renumber(member),
        )
        for rank, others in enumerate(((1, 7), (0, 6)))
    ]  # member 1 is not looked at, and sends to member 0; with the new numbers it would be somebody else
    snapshot = _snapshot(*ranks)
    assert not stuck_ranks(snapshot, cautious=True)
    assert not stuck_ranks(snapshot, cautious=False)
    assert not ranks_waited_for(snapshot)
    assert find_certain(Inspection(snapshot)) is None


def test_only_neighbours_miss_a_rank_that_has_ended() -> None:
    call = Call(operation="Neighbor_alltoall", communicator=_GRID, sequence=1, site="job.py:4")
    gone = RankState(rank=2, end=End(kind=EndKind.EXITED, exit_code=0))
    for neighbours, found in (((2,), True), ((1,), False)):
        waits = _inside(0, call, neighbours={_GRID: neighbours})
        assert (find_certain(Inspection(_snapshot(waits, RankState(rank=1), gone))) is not None) is found


def test_a_rank_that_could_not_tell_of_a_window_may_have_come() -> None:
    unknown = _inside(1, _BARRIER, windows_known=False)
    assert not stuck_ranks(_snapshot(_inside(0, _FENCE), unknown), cautious=False)
    assert stuck_ranks(_snapshot(_inside(0, _FENCE), replace(unknown, windows_known=True)), cautious=False)


def test_epochs_that_wait_for_each_other_name_those_that_did_not_post() -> None:
    groups: dict[int, tuple[int, ...]] = {1: (1,), 2: (0,)}
    starts = [_epoch("Win.Start", 1, POST_TOKEN, 3), _epoch("Win.Start", 2, POST_TOKEN, 3)]
    snapshot = _snapshot(*(_inside(rank, call) for rank, call in enumerate(starts)), groups=groups)
    finding = find_stuck(Inspection(snapshot), cautious=False)
    assert finding is not None
    assert (finding.kind, finding.cause) == ("deadlock", "unmatched-epoch")
    assert "rank 0 waits in Win.Start at job.py:3 for rank 1 to Post Win" in finding.summary
    assert "must Post before it Starts" in finding.advice
