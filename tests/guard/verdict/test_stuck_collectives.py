"""Who can never move is the same by classes as rank by rank, whatever ranks wait for."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.guard.shared_memory.layout import OWN_TIMEOUT
from paceline.guard.verdict.snapshot import Call, End, EndKind, Membership, RankState, Snapshot, Waiting
from paceline.guard.verdict.waits import stuck_ranks as rank_by_rank
from paceline.guard.verdict.waits.stuck_collectives import stuck_in_collectives
from paceline.guard.verdict.waits.stuck_ranks import stuck_ranks

_OPERATIONS = ["Barrier", "Allreduce", "Bcast", "Reduce", "torch.all_reduce", "torch.broadcast"]
_ENDED = End(kind=EndKind.RAISED, detail="no", exit_code=1)


@st.composite
def plain_snapshots(draw: st.DrawFn) -> Snapshot:
    """Return ranks that wait in collectives, run, have ended or were never seen: some could be in no real job."""
    num_ranks = draw(st.integers(1, 8) | st.integers(20, 64))
    groups = {"w.world": Membership(name="WORLD", ranks=tuple(range(num_ranks)))}
    for number in range(draw(st.integers(0, 3))):
        members = draw(st.sets(st.integers(0, num_ranks - 1), min_size=1))
        groups[f"w.group{number}"] = Membership(name=f"group {number}", ranks=tuple(sorted(members)))
    names = st.sampled_from(sorted(groups))
    calls = st.builds(
        Call, operation=st.sampled_from(_OPERATIONS), communicator=names | st.just("w.unknown"),
        sequence=st.integers(1, 3), root=st.integers(-1, 2), num_bytes=st.sampled_from([-1, 0, 8]),
        flags=st.sampled_from([0, 0, 0, 0, OWN_TIMEOUT]),
    )  # fmt: skip
    states = st.builds(
        RankState, rank=st.just(0), end=st.sampled_from([None, None, None, None, _ENDED]),
        threads=st.sampled_from([None, 1, 1, 1, 1, 1]).flatmap(
            lambda waits: st.tuples(st.builds(Waiting, call=calls)) if waits else st.just((None,))
        ),
        positions=st.dictionaries(names, st.integers(0, 3)),
        freed=st.just(frozenset()) | st.frozensets(names, max_size=1),
        communicators_known=st.sampled_from([True, True, True, False]),
    )  # fmt: skip
    ranks = draw(st.lists(states | states | states | st.none(), min_size=num_ranks, max_size=num_ranks))
    return Snapshot(
        ranks=[state and replace(state, rank=rank) for rank, state in enumerate(ranks)], communicators=groups
    )


@settings(deadline=None, max_examples=300)
@given(plain_snapshots(), st.booleans())
def test_classes_give_what_is_found_rank_by_rank(snapshot: Snapshot, cautious: bool) -> None:
    assert stuck_in_collectives(snapshot, cautious=cautious) == stuck_ranks(snapshot, cautious=cautious)


def _rows(num_rows: int, last_moves: bool) -> Snapshot:
    """Return rows of two ranks: the first of each waits for its neighbour, and that for the first of the next row."""
    members = {f"w.{at}": (at, at + 1) for at in range(2 * num_rows - 1)}
    ranks = [
        RankState(
            rank=rank, positions={f"w.{rank}": 1},
            threads=(Waiting(call=Call(operation="Barrier", communicator=f"w.{rank}", sequence=1)),),
        )
        for rank in range(2 * num_rows - 1)
    ]  # fmt: skip
    last = RankState(rank=len(ranks), end=None if last_moves else _ENDED, threads=(None,))
    known = {name: Membership(name=name, ranks=both) for name, both in members.items()}
    return Snapshot(ranks=[*ranks, last], communicators=known)


@pytest.mark.parametrize("last_moves", [True, False])
def test_a_chain_of_many_ranks_moves_if_its_last_does(monkeypatch: pytest.MonkeyPatch, last_moves: bool) -> None:
    snapshot = _rows(200, last_moves)
    found = stuck_ranks(snapshot, cautious=True)
    assert found == (frozenset() if last_moves else frozenset(range(399)))
    monkeypatch.setattr(rank_by_rank, "stuck_in_collectives", lambda *_, **__: None)
    assert stuck_ranks(snapshot, cautious=True) == found


def test_what_is_not_a_plain_collective_is_left_to_the_rules_for_all() -> None:
    snapshot = _rows(2, last_moves=True)
    receive = Waiting(call=Call(operation="Recv", communicator="w.0", peer=1, tag=0))
    (first, *others) = snapshot.ranks
    assert first is not None
    several = replace(first, threads=(*first.threads, receive))
    gone = replace(first, end=_ENDED, posted=(receive.call,))
    for odd in (replace(first, threads=(receive,)), several, gone):
        assert stuck_in_collectives(replace(snapshot, ranks=[odd, *others]), cautious=True) is None
    assert stuck_in_collectives(snapshot, cautious=True) == frozenset()
