"""A call under an `if` that only some ranks enter."""

from __future__ import annotations

from collections.abc import Sequence

from paceline.guard.verdict.causes.explanation import Explanation
from paceline.guard.verdict.causes.related_lines import condition_of, names_a_rank, relate_calls
from paceline.guard.verdict.finding import Cause
from paceline.guard.verdict.first_difference import DifferingCalls
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.snapshot import Position
from paceline.guard.verdict.wording import call_name, name_ranks, verb

_JUST_BELOW = 2  # lines between an `if` and a call that needs no line number of the `if`


def explain_conditional_call(inspection: Inspection, differing: DifferingCalls | None) -> Explanation | None:
    """Explain ranks that differ because a call is under an `if` that only some of them enter."""
    lines = differing.by_line() if differing is not None else []
    if differing is None or len(lines) != 2:
        return None
    first, second = lines
    one, other = differing.calls[first[0]], differing.calls[second[0]]
    relation = relate_calls(inspection, one, other)
    if relation is None:
        return None
    for condition, line, inside, call in (
        (relation.second_condition, relation.second_condition_line, second, other),
        (relation.first_condition, relation.first_condition_line, first, one),
    ):
        if condition is not None:
            at = _where_the_condition_is(f"{relation.file}:{line}", call.site)
            name = call_name(call)
            return Explanation(
                ranks=inside if len(first) == len(second) else second,
                summary=f"only {name_ranks(inside)} {verb(inside, 'makes', 'make')} the {name} at {call.site}, "
                f"under `if {condition}`{at}; from there on {verb(inside, 'its', 'their')} calls pair up with the "
                "wrong calls of the other ranks",
                cause=Cause.RANK_CONDITIONAL_CALL,
                advice=f"take the {name} at {call.site} out of the `if {condition}`{at}: every rank must make it",
            )
    return None


def _where_the_condition_is(condition: str, site: str) -> str:
    """Name the line of a condition, unless the call stands right below it."""
    file, _, line = condition.rpartition(":")
    called_file, _, called = site.rpartition(":")
    return "" if file == called_file and 0 <= int(called) - int(line) <= _JUST_BELOW else f" at {condition}"


def explain_call_of_some(
    inspection: Inspection, ended: tuple[int, ...], waiting: Sequence[int], position: Position
) -> Explanation | None:
    """Explain a call that only a minority makes, while the others come to their end without it."""
    call = inspection.call_at(waiting[0], position) if waiting else None
    if call is None:
        return None
    condition = condition_of(inspection, call)
    if len(waiting) >= len(ended) and not names_a_rank(condition):
        return None
    odd = waiting if len(waiting) < len(ended) else ended
    under = f", under `if {condition}`" if condition else ""
    return Explanation(
        ranks=tuple(sorted(odd)),
        summary=f"only {name_ranks(waiting)} {verb(waiting, 'makes', 'make')} the {call_name(call)} at {call.site}"
        f"{under}; {name_ranks(ended)} ended without it",
        cause=Cause.RANK_CONDITIONAL_CALL,
        advice=f"let every rank make the {call_name(call)} at {call.site}, or none",
    )
