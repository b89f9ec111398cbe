"""Why ranks wait for each other on different communicators, windows or files: one has left out a call on one of them.

What they did on all that they share is laid side by side in the order in which each rank did it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from paceline.errors import group_ranks
from paceline.guard.verdict.causes.call_counts import explain_unseen_left_out
from paceline.guard.verdict.causes.deviation import Deviation, longest_rest, usual_side
from paceline.guard.verdict.causes.explain_deviation import explain_deviation
from paceline.guard.verdict.finding import Cause, Explanation
from paceline.guard.verdict.first_difference import line_of
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.snapshot import Call
from paceline.guard.verdict.source.related_lines import relate_calls


def explain_across(inspection: Inspection, calls: Mapping[int, Call]) -> list[Explanation]:
    """Explain ranks that wait in these calls by the first call that only some of them made; nothing if none tells."""
    deviation = _find_deviation_across(inspection, {call.communicator for call in calls.values()})
    if deviation is None or deviation.usual_call.communicator == deviation.odd_call.communicator:
        return []  # what sets them apart is on a communicator that not all of them share
    explanations = explain_deviation(inspection, deviation)
    if explanations[0].cause is not Cause.DIFFERENT_COLLECTIVES:
        return explanations
    relation = relate_calls(inspection, deviation.usual_call, deviation.odd_call)
    is_below = relation is not None and relation.first_is_above and not deviation.is_tie
    return [explain_unseen_left_out(deviation)] if is_below else []


def _find_deviation_across(inspection: Inspection, communicators: Iterable[str]) -> Deviation | None:
    """Return the two sides where the members first made different calls on what all of them share."""
    known = [membership for name in communicators if (membership := inspection.communicator(name)) is not None]
    ranks = sorted({rank for membership in known for rank in membership.ranks})
    pasts = _shared_pasts(inspection, ranks)
    if len(pasts) < 2:
        return None
    for at in range(max(map(len, pasts.values()))):
        calls = {rank: past[at] for rank, past in pasts.items() if at < len(past)}
        sides = [side for _, side in group_ranks({rank: line_of(call) for rank, call in calls.items()})]
        if len(sides) < 2:
            continue
        lines = {rank: [line_of(call) for call in pasts[rank]] for rank in calls}
        past = tuple(lines[sides[0][0]][:at])
        usual, is_tie = usual_side(calls, sides, past)
        odd = next(side for side in sides if side is not usual)
        return Deviation(
            usual=usual, odd=tuple(sorted(rank for side in sides if side is not usual for rank in side)),
            usual_call=calls[usual[0]], odd_call=calls[odd[0]], calls=calls, past=past,
            last_call=pasts[odd[0]][at - 1] if at else None, usual_rest=longest_rest(lines, usual, at),
            odd_rest=longest_rest(lines, odd, at), is_tie=is_tie, is_across=True,
        )  # fmt: skip
    return None


def _shared_pasts(inspection: Inspection, ranks: list[int]) -> dict[int, list[Call]]:
    """Return the collectives of each rank, in its own order, on communicators of all; from where all remember."""
    pasts: dict[int, list[Call]] = {rank: [] for rank in ranks}
    for name, membership in inspection.snapshot.communicators.items():
        if not set(ranks) <= set(membership.ranks):
            continue
        by_rank = {rank: inspection.collectives(rank, name) for rank in ranks}
        begin = max((min(past) for past in by_rank.values() if past), default=0)
        for rank, past in by_rank.items():
            pasts[rank] += [call for sequence, call in past.items() if sequence >= begin]
    return {rank: sorted(past, key=lambda call: call.number) for rank, past in pasts.items() if past}
