"""Whether ranks make the same calls, only in another order."""

from __future__ import annotations

from collections.abc import Mapping

from paceline.guard.verdict.first_difference import Line, line_of
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.snapshot import Call, Position

_NEARBY = 2  # positions


def _rank_of_line(calls: Mapping[int, Call]) -> dict[Line, int]:
    """Return one rank for each line that calls came from."""
    ranks: dict[Line, int] = {}
    for rank, call in calls.items():
        ranks.setdefault(line_of(call), rank)
    return ranks


def lines_are_shared(inspection: Inspection, position: Position, calls: Mapping[int, Call]) -> bool:
    """Say whether ranks are at different lines here, and each has been at the other's line too: the order differs."""
    ranks = _rank_of_line(calls)
    if len(ranks) < 2:
        return False
    for line, rank in ranks.items():
        past = {line_of(call) for call in inspection.collectives(rank, position.communicator).values()}
        if not ranks.keys() - {line} <= past:
            return False
    return True


def is_other_order(inspection: Inspection, position: Position, calls: Mapping[int, Call]) -> bool:
    """Say whether what some ranks call here is what others called, or call, at another position nearby."""
    ranks = _rank_of_line(calls)
    for line, rank in ranks.items():
        past = inspection.collectives(rank, position.communicator)
        others = ranks.keys() - {line}
        if any(line_of(call) in others for at, call in past.items() if abs(at - position.sequence) <= _NEARBY):
            return True
    return False
