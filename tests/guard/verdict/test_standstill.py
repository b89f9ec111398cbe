"""A standstill is a finding only if every live rank certainly waits: pure, with simulated ranks."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.guard.verdict.simulated import WORLD, collective, communicators, message, waits

from paceline.guard.shared_memory.layout import OWN_TIMEOUT
from paceline.guard.shared_memory.operations import Family
from paceline.guard.verdict.compiled_call import CompiledCall
from paceline.guard.verdict.finding import Cause, Finding, FindingKind, GroupState
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.rules.standstill import find_standstill
from paceline.guard.verdict.snapshot import End, EndKind, RankState, Snapshot

IN_LIBRARY = CompiledCall(
    function="MPI_Barrier", library="libhalo.so", site="solver.py:31", family=Family.COLLECTIVE, waits=True
)
IN_MPI4PY = replace(IN_LIBRARY, library="mpi4py", site="train.py:40")
EXITED = End(kind=EndKind.EXITED, detail="came to the end of the script", exit_code=0, at_ns=5)


def standstill(*ranks: RankState | None, stands: dict[int, CompiledCall]) -> Finding | None:
    return find_standstill(Inspection(Snapshot(ranks=ranks, communicators=communicators(len(ranks)))), stands)


def test_ranks_in_a_library_and_one_that_has_ended() -> None:
    ranks = (RankState(rank=0), RankState(rank=1, end=EXITED), RankState(rank=2))
    finding = standstill(*ranks, stands={0: IN_LIBRARY, 2: IN_LIBRARY})
    assert finding is not None
    assert (finding.kind, finding.cause, finding.ranks) == (FindingKind.PEER_GONE, Cause.EARLY_EXIT, (1,))
    assert finding.summary == (
        "rank 1 ended (came to the end of the script), while ranks 0, 2 stand in MPI_Barrier, called by libhalo.so "
        "from solver.py:31; no other rank is left; for whom a call of a compiled library waits is not recorded"
    )
    first = finding.groups[0]
    assert (first.ranks, first.state) == ((0, 2), GroupState.BLOCKED)
    assert (first.call, first.site) == ("MPI_Barrier", "solver.py:31")
    assert [group.ranks for group in finding.groups] == [(0, 2), (1,)]


def test_an_exception_is_the_cause_with_the_text_as_it_is() -> None:
    end = End(kind=EndKind.RAISED, detail="ValueError: a; b", site="solver.py:20", at_ns=5)
    finding = standstill(RankState(rank=0), RankState(rank=1, end=end), stands={0: IN_LIBRARY})
    assert finding is not None
    assert (finding.kind, finding.cause) == (FindingKind.PEER_GONE, Cause.EXCEPTION)
    assert "rank 1 raised at solver.py:20 (ValueError: a; b), while rank 0 stands in MPI_Barrier" in finding.summary


def test_one_rank_in_a_watched_call_and_the_others_in_the_library() -> None:
    watched = waits(1, collective("Barrier", 40, sequence=2))
    stands = {0: IN_LIBRARY, 1: IN_MPI4PY, 2: IN_LIBRARY}
    finding = standstill(RankState(rank=0), watched, RankState(rank=2), stands=stands)
    assert finding is not None
    assert (finding.kind, finding.cause, finding.ranks) == (FindingKind.DEADLOCK, Cause.UNSEEN_CALL, (1,))
    assert "rank 1 stands in Barrier on WORLD at train.py:40" in finding.summary
    assert [(group.ranks, group.call) for group in finding.groups] == [((0, 2), "MPI_Barrier"), ((1,), "Barrier")]


def test_a_receive_that_waits_for_a_rank_in_the_library() -> None:
    receives = waits(1, message("Recv", 50, peer=0))
    finding = standstill(RankState(rank=0), receives, stands={0: IN_LIBRARY, 1: IN_MPI4PY})
    assert finding is not None
    assert (finding.kind, finding.ranks) == (FindingKind.DEADLOCK, (0, 1)), "nothing tells who is right"


def test_calls_that_all_made_by_the_records_and_that_stay() -> None:
    """A rank left out a library's barrier, so its next watched one has met those of the library."""
    barrier = collective("Barrier", 40, sequence=2)
    gone = RankState(rank=1, end=EXITED, positions={WORLD: 2}, history=(replace(barrier, left_ns=1),))
    finding = standstill(waits(0, barrier), gone, waits(2, barrier), stands={0: IN_MPI4PY, 2: IN_MPI4PY})
    assert finding is not None
    assert (finding.kind, finding.ranks) == (FindingKind.PEER_GONE, (1,))
    assert "ranks differ in calls that are not recorded" in finding.summary


def test_who_ended_well_is_not_blamed_for_others_that_differ() -> None:
    watched = waits(1, collective("Barrier", 40, sequence=2))
    ended = RankState(rank=2, end=EXITED)
    finding = standstill(RankState(rank=0), watched, ended, stands={0: IN_LIBRARY, 1: IN_MPI4PY})
    assert finding is not None
    assert (finding.kind, finding.ranks) == (FindingKind.DEADLOCK, (0, 1))


LIMITED = waits(1, collective("Barrier", 40, sequence=2, flags=OWN_TIMEOUT))


@pytest.mark.parametrize(
    ("ranks", "stands"),
    [
        ((RankState(rank=0), RankState(rank=1)), {0: IN_LIBRARY}),  # one runs
        ((RankState(rank=0), None), {0: IN_LIBRARY}),  # one has not been seen yet
        ((RankState(rank=0), RankState(rank=1)), {0: IN_LIBRARY, 1: replace(IN_LIBRARY, waits=False)}),  # one polls
        ((RankState(rank=0), LIMITED), {0: IN_LIBRARY, 1: IN_MPI4PY}),  # it gives up by itself
        ((RankState(rank=0), RankState(rank=1, end=replace(EXITED, kind=EndKind.ABORTED))), {0: IN_LIBRARY}),
        ((RankState(rank=0, threads_known=False), RankState(rank=1, end=EXITED)), {0: IN_LIBRARY}),
        ((RankState(rank=0, end=EXITED), RankState(rank=1, end=EXITED)), {}),  # all have ended
        ((RankState(rank=0),), {0: IN_LIBRARY}),  # a world of one
    ],
)
def test_silence_where_something_may_still_move(
    ranks: tuple[RankState | None, ...], stands: dict[int, CompiledCall]
) -> None:
    assert standstill(*ranks, stands=stands) is None
