"""Ranks that do the same are one group, described by what they do."""

from __future__ import annotations

from tests.guard.verdict.simulated import WORLD, collective, communicators, message, waits

from paceline.guard.verdict.finding import GroupState
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.rank_groups import rank_groups
from paceline.guard.verdict.snapshot import End, EndKind, RankState, Snapshot, Waiting

BARRIER = collective("Barrier", 4, sequence=5)


def grouped(
    *ranks: RankState | None, shown: dict[int, object] | None = None, starting: tuple[int, ...] = ()
) -> list[tuple[object, ...]]:
    """Return ranks, state, call, sequence, site and detail of each group."""
    inspection = Inspection(
        Snapshot(ranks=ranks, communicators=communicators(len(ranks)), starting=frozenset(starting))
    )
    groups = rank_groups(inspection, shown)  # type: ignore[arg-type]
    return [(group.ranks, group.state, group.call, group.sequence, group.site, group.detail) for group in groups]


def test_the_largest_group_comes_first_and_says_what_its_ranks_are_in() -> None:
    reduce = collective("Allreduce", 9, sequence=5, reduction="SUM", dtype="f4", num_bytes=32, count=8)
    assert grouped(waits(0, reduce), waits(1, BARRIER), waits(2, BARRIER)) == [
        ((1, 2), GroupState.BLOCKED, "Barrier", 5, "train.py:4", ""),
        ((0,), GroupState.BLOCKED, "Allreduce", 5, "train.py:9", "SUM, 8 x f4"),
    ]


def test_ranks_that_run_have_not_come_or_have_ended() -> None:
    killed = End(kind=EndKind.KILLED, detail="SIGKILL", signal=9)
    ranks = (RankState(rank=0, history=(BARRIER,)), None, RankState(rank=2, end=killed), None)
    assert grouped(*ranks, starting=(1,)) == [
        ((0,), GroupState.RUNNING, None, None, None, "last call Barrier at train.py:4"),
        ((1,), GroupState.RUNNING, None, None, None, "has not joined the job yet"),
        ((2,), GroupState.KILLED, None, None, None, "SIGKILL"),
        ((3,), GroupState.RUNNING, None, None, None, "not seen from here"),
    ]


def test_a_wait_names_the_requests_that_it_waits_for() -> None:
    receive = message("Irecv", 6, peer=1, tag=2, number=1)
    wait = message("Waitany", 8, peer=-1, tag=-1, communicator="", number=2)
    state = RankState(rank=0, threads=(Waiting(call=wait, requests=(receive, receive), any_of=True),))
    ((_, _, call, _, site, detail), *_) = grouped(state, RankState(rank=1))
    assert (call, site) == ("Waitany", "train.py:8")
    assert detail == (
        "waits for Irecv from rank 1, tag 2 (posted at train.py:6) or Irecv from rank 1, tag 2 (posted at train.py:6)"
    )


def test_a_call_that_has_returned_says_so() -> None:
    past = collective("Bcast", 2, sequence=1, number=0)
    inspection = Inspection(
        Snapshot(ranks=[waits(0, collective("Barrier", 4, sequence=2, number=1))], communicators=communicators(1))
    )
    (group,) = rank_groups(inspection, {0: past})
    assert (group.call, group.has_returned) == ("Bcast", True)
    (group,) = rank_groups(inspection)
    assert (group.call, group.has_returned) == ("Barrier", False)


def test_hundreds_of_ranks_with_a_peer_of_their_own_are_one_group() -> None:
    world_size = 300
    ranks = [waits(rank, message("Recv", 5, peer=(rank + 1) % world_size)) for rank in range(world_size)]
    ((ranks_of_group, _, call, _, _, detail),) = grouped(*ranks)
    assert ranks_of_group == tuple(range(world_size))
    assert call == "Recv"
    assert str(detail).endswith("each rank with its own peer")


def test_the_same_call_on_another_communicator_is_another_group() -> None:
    other = collective("Barrier", 4, communicator="unknown", sequence=5)
    assert len(grouped(waits(0, BARRIER), waits(1, other))) == 2
    assert BARRIER.communicator == WORLD
