"""Ranks that exchange messages in step, of which some have come to a collective that the others have not come to.

What they did is laid side by side, collectives and messages alike, as far as all made the same calls from the same
lines: only ranks of one role do.
"""

from __future__ import annotations

from collections.abc import Mapping

from paceline.guard.shared_memory.operations import Family
from paceline.guard.verdict.causes.deviation import Deviation, longest_rest
from paceline.guard.verdict.causes.explain_deviation import explain_deviation
from paceline.guard.verdict.finding import Cause, Explanation
from paceline.guard.verdict.first_difference import line_of
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.snapshot import Call


def explain_collective_among_messages(inspection: Inspection, calls: Mapping[int, Call]) -> list[Explanation]:
    """Explain a collective that the fewer of these ranks have come to, where the others go on with messages."""
    inside = tuple(rank for rank in sorted(calls) if calls[rank].is_collective)
    others = tuple(rank for rank in sorted(calls) if not calls[rank].is_collective)
    if not 0 < len(inside) < len(others):
        return []
    pasts = {rank: _calls_of(inspection, rank) for rank in calls}
    at = len(pasts[inside[0]]) - 1  # the last call of these ranks is the one that they are in
    if at < 1 or any(len(pasts[rank]) != at + 1 for rank in inside) or any(len(pasts[rank]) <= at for rank in others):
        return []
    lines = {rank: [line_of(call) for call in past] for rank, past in pasts.items()}
    has_one_past = len({tuple(past[:at]) for past in lines.values()}) == 1
    if not has_one_past or any(len({lines[rank][at] for rank in side}) > 1 for side in (inside, others)):
        return []
    deviation = Deviation(
        usual=others, odd=inside, usual_call=pasts[others[0]][at], odd_call=pasts[inside[0]][at],
        calls={rank: past[at] for rank, past in pasts.items()}, past=tuple(lines[inside[0]][:at]),
        last_call=pasts[inside[0]][at - 1], usual_rest=longest_rest(lines, others, at),
        odd_rest=longest_rest(lines, inside, at), is_across=True,
    )  # fmt: skip
    if deviation.usual_call.is_collective:
        return []
    explanations = explain_deviation(inspection, deviation)
    return explanations if explanations[0].cause is not Cause.DIFFERENT_COLLECTIVES else []


def _calls_of(inspection: Inspection, rank: int) -> list[Call]:
    """Return the collectives and messages of a rank, if all are remembered; waits for them tell nothing more."""
    state = inspection.state(rank)
    past = state.history if state is not None else ()
    is_remembered = bool(past) and past[0].number == 0
    return [call for call in past if call.family is not Family.WAIT] if is_remembered else []
