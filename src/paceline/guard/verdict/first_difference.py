"""Finds the first position at which the members of a communicator called from different lines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from paceline.errors import group_ranks
from paceline.guard.verdict.finding import FirstDifference, GroupState, RankGroup
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.snapshot import Call, Position, is_inter
from paceline.guard.verdict.wording import call_name

Line = tuple[str, ...]  # operation, the line of the call, and what led to it, from the inside out


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferingCalls:
    """Calls of one position that came from different lines."""

    position: Position
    calls: Mapping[int, Call]  # of every member that got there

    def by_line(self) -> list[tuple[int, ...]]:
        """Return the ranks that called from the same line together, the largest group first."""
        return [ranks for _, ranks in group_ranks({rank: line_of(call) for rank, call in self.calls.items()})]


def line_of(call: Call) -> Line:
    """Return what tells call sites apart.

    The two sides of an intercommunicator call from different lines, and so does a root: there only operations count.
    Lines of different roles that always meet count as one; see roles.py.
    """
    if is_inter(call.communicator) and call.is_collective:
        return (call.operation, call.communicator)
    if call.role:
        return (call.operation, call.role)
    return (call.operation, call.site, *call.callers, *call.library)


def find_first_difference(inspection: Inspection, up_to: Position) -> DifferingCalls | None:
    """Find the first position, not after `up_to`, at which members called from different lines.

    What not every member remembers is left out: nothing can be said of it. A member that came to its end differs from
    nobody.
    """
    known = inspection.communicator(up_to.communicator)
    if known is None:
        return None
    pasts = {rank: inspection.collectives(rank, up_to.communicator) for rank in known.ranks}
    pasts = {rank: past for rank, past in pasts.items() if past}
    if len(pasts) < 2:
        return None
    begin = max(min(past) for past in pasts.values())
    for sequence in range(begin, up_to.sequence + 1):
        calls = {rank: past[sequence] for rank, past in pasts.items() if sequence in past}
        if len({line_of(call) for call in calls.values()}) > 1:
            return DifferingCalls(position=Position(up_to.communicator, sequence), calls=calls)
    return None


def shown_difference(inspection: Inspection, differing: DifferingCalls | None) -> FirstDifference | None:
    """Return the first difference as a finding shows it."""
    if differing is None:
        return None
    lines = group_ranks({rank: (call_name(call), call.site) for rank, call in differing.calls.items()})
    if len(lines) < 2:
        return None  # the lines are the same; what called them is not
    groups = tuple(
        RankGroup(ranks=ranks, state=GroupState.BLOCKED, call=name, site=site) for (name, site), ranks in lines
    )
    communicator, sequence = differing.position
    return FirstDifference(sequence=sequence, communicator=inspection.name(communicator), groups=groups)
