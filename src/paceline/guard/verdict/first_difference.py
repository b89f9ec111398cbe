"""Reads the past of ranks: where their calls first came from different lines, and how their loops went."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from paceline.guard.verdict.snapshot import Call, Snapshot

Place = tuple[str, ...]  # the line of the call, and the lines that called it


@dataclass(frozen=True, slots=True, kw_only=True)
class Parting:
    """The first position at which members called from different lines, and who then was where."""

    communicator: str
    sequence: int
    calls: Mapping[int, Call]  # of every member that got there


def collectives_of(snapshot: Snapshot, rank: int, communicator: str) -> dict[int, Call]:
    """Return what is remembered of a rank's collectives on a communicator, by position."""
    state = snapshot.state(rank)
    if state is None:
        return {}
    return {call.sequence: call for call in state.history if call.communicator == communicator and call.is_collective}


def place_of(call: Call) -> Place:
    """Return what tells call sites apart."""
    return (call.operation, call.site, *call.callers[:1])


def find_parting(snapshot: Snapshot, communicator: str, up_to: int) -> Parting | None:
    """Find the first position, not after `up_to`, at which members called from different lines.

    Positions that not every rank remembers are left out: nothing can be said of them.
    """
    group = snapshot.groups.get(communicator)
    if group is None:
        return None
    pasts = {rank: collectives_of(snapshot, rank, communicator) for rank in group.ranks}
    pasts = {rank: past for rank, past in pasts.items() if past}
    if len(pasts) < 2:
        return None
    begin = max(min(past) for past in pasts.values())
    usual = next(iter(pasts.values()))
    places = {rank: [place_of(past[at]) for at in sorted(past) if begin <= at <= up_to] for rank, past in pasts.items()}
    first = _first_difference(list(places.values()))
    if first is None or begin + first > up_to or begin + first not in usual | next(reversed(pasts.values())):
        return None
    at = begin + first
    return Parting(
        communicator=communicator, sequence=at, calls={rank: past[at] for rank, past in pasts.items() if at in past}
    )


def _first_difference(rows: list[list[Place]]) -> int | None:
    """Return the first index at which rows of places differ; a row that has ended differs from none."""
    shortest_known = rows[0]
    for row in rows[1:]:
        if len(row) > len(shortest_known):
            shortest_known = row
    first: int | None = None
    for row in rows:
        if row == shortest_known[: len(row)]:
            continue
        index = next(i for i, place in enumerate(row) if place != shortest_known[i])
        first = index if first is None else min(first, index)
    return first
