"""Why ranks wait on a communicator whose other members wait elsewhere: these have passed over a call above theirs.

Calls on different communicators share no position on which they could be compared. But a rank that stands below a call
that may be left out, and has not made it, has come there without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from paceline.guard.verdict.finding import Cause, Explanation
from paceline.guard.verdict.first_difference import line_of
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.snapshot import Call
from paceline.guard.verdict.source.passed_over import can_be_left_out
from paceline.guard.verdict.source.related_lines import relate_calls
from paceline.guard.verdict.wording import call_name, name_ranks, verb


def explain_passed_over(inspection: Inspection, calls: Mapping[int, Call]) -> list[Explanation]:
    """Explain ranks that wait in these calls by one that the members they wait for have passed over."""
    for rank, call in sorted(calls.items()):
        late = sorted(inspection.missing_at(call.position))
        if late and all(_has_passed_over(inspection, calls, rank, other) for other in late):
            waiting = sorted(rank for rank, other in calls.items() if other.position == call.position)
            return [_explain(inspection, waiting, late, call, calls[late[0]])]
    return []


def _has_passed_over(inspection: Inspection, calls: Mapping[int, Call], waiting: int, other: int) -> bool:
    """Say whether a rank stands below the call that another waits in, and has come there without it."""
    call, theirs = calls[waiting], calls.get(other)
    relation = relate_calls(inspection, call, theirs) if theirs is not None else None
    if theirs is None or relation is None or relation.fork is not None or not relation.first_is_above:
        return False  # they may still come to it, or make both calls in another order
    if relation.share_a_loop and _num_made(inspection, other, theirs) <= _num_made(inspection, waiting, theirs):
        return False  # they may be one round behind
    fewer = _num_made(inspection, other, call) < _num_made(inspection, waiting, call)
    return fewer and can_be_left_out(inspection, call, theirs)


def _num_made(inspection: Inspection, rank: int, call: Call) -> int:
    """Count what a rank remembers of calls from a line, on whatever communicator."""
    state = inspection.state(rank)
    return sum(1 for past in (state.history if state is not None else ()) if line_of(past) == line_of(call))


def _explain(
    inspection: Inspection, waiting: Sequence[int], late: Sequence[int], call: Call, theirs: Call
) -> Explanation:
    """Tell who stands where; the fewer of both are out of line, or all of them if both are equally many."""
    place = _place(inspection, call)
    every = f"every member of {inspection.name(call.communicator)} must make it, or none"
    cause, advice = Cause.DIFFERENT_COLLECTIVES, f"let {name_ranks(late)} make the {place}, or {name_ranks(waiting)} "
    advice += f"do without it: {every}"
    odd = tuple(sorted([*waiting, *late]))
    if len(late) < len(waiting):
        odd, cause = tuple(late), Cause.SKIPPED_CALL
        advice = f"find the condition that leads {name_ranks(late)} past the {place}: {every}"
    elif len(waiting) < len(late):
        odd, cause = tuple(waiting), Cause.RANK_CONDITIONAL_CALL
    return Explanation(
        ranks=odd,
        summary=f"{name_ranks(late)} came to the {_place(inspection, theirs)} without the {place}, in which "
        f"{name_ranks(waiting)} {verb(waiting, 'waits', 'wait')} for {verb(late, 'it', 'them')}",
        cause=cause,
        advice=advice,
    )


def _place(inspection: Inspection, call: Call) -> str:
    """Name a call with its communicator, unless it is the one that the call makes."""
    name = inspection.name(call.communicator)
    return f"{call_name(call)}{'' if name == call_name(call) else f' on {name}'} at {call.site}"


__all__ = ["explain_passed_over"]
