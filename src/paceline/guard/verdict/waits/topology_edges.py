"""Edges of a topology that one end alone knows: a rank waits there for a neighbour that sends it nothing."""

from __future__ import annotations

from paceline.guard.verdict.snapshot import Call, RankState, Snapshot


def silent_sources(snapshot: Snapshot, state: RankState, call: Call) -> list[int]:
    """Return the ranks that a rank receives from in a neighbourhood collective, and that do not send to it."""
    known, edges = snapshot.communicators[call.communicator], state.edges.get(call.communicator)
    if edges is None:
        return []
    member, silent = known.member(state.rank), []
    for source in edges.sources:
        other = snapshot.state(known.ranks[source])
        theirs = other.edges.get(call.communicator) if other is not None else None
        if theirs is not None and member not in theirs.destinations:
            silent.append(known.ranks[source])
    return silent
