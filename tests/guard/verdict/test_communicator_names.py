"""Communicators of different ranks that have one name are told apart by their members."""

from __future__ import annotations

from tests.guard.verdict.simulated import collective

from paceline.guard.verdict.diagnose import find_stuck
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.snapshot import Membership, RankState, Snapshot, Waiting

ROWS = {
    "mpi-world": Membership(name="WORLD", ranks=(0, 1, 2, 3)),
    "a": Membership(name="Split", ranks=(0, 1)),
    "b": Membership(name="Split", ranks=(2, 3)),
    "c": Membership(name="Split 2", ranks=(0, 2)),
}


def test_only_those_with_the_same_name_get_their_members() -> None:
    inspection = Inspection(Snapshot(ranks=[None] * 4, communicators=ROWS))
    names = [inspection.name(identity) for identity in ROWS]
    assert names == ["WORLD", "Split of ranks 0-1", "Split of ranks 2-3", "Split 2"]


def test_a_finding_says_on_which_of_them_a_rank_waits() -> None:
    calls = [collective("Barrier", 5, "a", sequence=1), collective("Barrier", 7, sequence=1)]
    states = [
        RankState(rank=rank, threads=(Waiting(call=call),), positions={call.communicator: 1}, history=(call,))
        for rank, call in enumerate([calls[0], calls[1], calls[1], calls[1]])
    ]
    finding = find_stuck(Inspection(Snapshot(ranks=states, communicators=ROWS)), cautious=True)
    assert finding is not None
    assert "Split of ranks 0-1" in {group.communicator for group in finding.groups}
