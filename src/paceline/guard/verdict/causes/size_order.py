"""Sizes that differ at one line: whether one rank has left out a call that the others make there.

A loop over tensors of different sizes makes the same sizes in the same order, round after round. What a rank brings now
may be what the others bring next.
"""

from __future__ import annotations

from collections.abc import Mapping

from paceline.errors import group_ranks
from paceline.guard.verdict.causes.habit import calls_left_out
from paceline.guard.verdict.finding import Cause, Explanation
from paceline.guard.verdict.first_difference import line_of
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.snapshot import Call, Position
from paceline.guard.verdict.wording import call_name, name_ranks, size_text, verb

_SizedLine = tuple[object, ...]


def _sized_line(call: Call) -> _SizedLine:
    return (*line_of(call), call.num_bytes, call.dtype)


def explain_sizes(inspection: Inspection, position: Position, calls: Mapping[int, Call]) -> list[Explanation]:
    """Explain sizes that differ at the same line, if earlier rounds tell why; otherwise nothing."""
    sides = group_ranks({rank: _sized_line(call) for rank, call in calls.items()})
    if len(sides) != 2:
        return []
    (usual, usual_ranks), (odd, odd_ranks) = sides
    past_calls = inspection.collectives(usual_ranks[0], position.communicator)
    past = [_sized_line(past_calls[at]) for at in sorted(past_calls) if at < position.sequence]
    ties = len(usual_ranks) == len(odd_ranks)
    left_out = calls_left_out(past, usual, odd)
    if left_out is None and ties:
        usual, usual_ranks, odd, odd_ranks = odd, odd_ranks, usual, usual_ranks
        left_out = calls_left_out(past, usual, odd)
    if not left_out:
        return []
    call, next_call = calls[usual_ranks[0]], calls[odd_ranks[0]]
    name = f"{call_name(call)} of {size_text(call)} at {call.site}"
    return [
        Explanation(
            ranks=odd_ranks,
            summary=f"{name_ranks(odd_ranks)} left out the {name}: {verb(odd_ranks, 'it brings', 'they bring')} "
            f"{size_text(next_call)}, as comes after it in earlier rounds, where {name_ranks(usual_ranks)} "
            f"{verb(usual_ranks, 'brings', 'bring')} {size_text(call)}",
            cause=Cause.SKIPPED_CALL,
            advice=f"find out why {name_ranks(odd_ranks)} left out the {name} (a tensor without a gradient, a caught "
            "exception, a condition that only some ranks meet): every rank must make it, with zeros if it has nothing "
            "to add",
        )
    ]
