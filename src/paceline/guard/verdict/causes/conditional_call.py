"""A call under an `if` that only some ranks enter."""

from __future__ import annotations

from collections.abc import Sequence

from paceline.guard.verdict.causes.deviation import Deviation
from paceline.guard.verdict.finding import Cause, Explanation
from paceline.guard.verdict.first_difference import line_of
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.snapshot import Call, Position
from paceline.guard.verdict.source.related_lines import condition_of, names_a_rank
from paceline.guard.verdict.source.user_source import SourceBlock
from paceline.guard.verdict.wording import call_name, name_ranks, verb

_JUST_BELOW = 2  # lines between an `if` and a call that needs no line number of the `if`


def explain_call_under_condition(
    inspection: Inspection, deviation: Deviation, condition: SourceBlock, file: str, *, of_odd: bool
) -> Explanation | None:
    """Explain a call that one side alone makes, under an `if`; None if another rank has ever made that call."""
    inside, call = (deviation.odd, deviation.odd_call) if of_odd else (deviation.usual, deviation.usual_call)
    if any_other_made(inspection, call, inside):
        return None
    at = _where_the_condition_is(f"{condition.file or file}:{condition.line}", call.site)
    name = f"{call_name(call)} {deviation.place(call)}"
    who, alone = f"only {name_ranks(inside)} {verb(inside, 'makes', 'make')} the {name}", ""
    advice = f"take the {name} out of the `if {condition.head}`{at}: every rank must make it"
    if not names_a_rank(condition):  # other ranks may still come to it
        who, alone = who.removeprefix("only "), ", which no other rank has made"
        advice = (
            f"let the `if {condition.head}`{at} come out the same on every rank, or take the {name} out of it: "
            "every rank must make it"
        )
    then = f"from there on {verb(inside, 'its', 'their')} calls pair up with the wrong calls of the other ranks"
    if deviation.is_across:
        then = f"{verb(inside, 'it waits', 'they wait')} there for the other ranks, which wait elsewhere"
    return Explanation(
        ranks=deviation.out_of_line,
        summary=f"{who}, under `if {condition.head}`{at}{alone}; {then}",
        cause=Cause.RANK_CONDITIONAL_CALL,
        advice=advice,
    )


def any_other_made(inspection: Inspection, call: Call, ranks: Sequence[int]) -> bool:
    """Say whether a rank outside these has made a call from the same line, as far as it is remembered."""
    line = line_of(call)
    return any(
        line_of(past) == line for state in inspection.states() if state.rank not in ranks for past in state.history
    )


def _where_the_condition_is(condition: str, site: str) -> str:
    """Name the line of a condition, unless the call stands right below it."""
    file, _, line = condition.rpartition(":")
    called_file, _, called = site.rpartition(":")
    return "" if file == called_file and 0 <= int(called) - int(line) <= _JUST_BELOW else f" at {condition}"


def explain_fork(deviation: Deviation, fork: SourceBlock, file: str, *, calls_differ: bool) -> Explanation:
    """Explain ranks that take different branches of one `if`."""
    odd, usual = deviation.odd, deviation.usual
    return Explanation(
        ranks=deviation.out_of_line,
        summary=f"{name_ranks(odd)} {verb(odd, 'takes', 'take')} a different branch of `if {fork.head}` at "
        f"{file}:{fork.line}: {verb(odd, 'it calls', 'they call')} {call_name(deviation.odd_call)} at "
        f"{deviation.odd_call.site}, {name_ranks(usual)} {verb(usual, 'calls', 'call')} "
        f"{call_name(deviation.usual_call)} at {deviation.usual_call.site}",
        cause=Cause.RANK_CONDITIONAL_CALL if calls_differ else Cause.CALL_ORDER,
        advice=f"let both branches of the `if {fork.head}` at {file}:{fork.line} make the same calls in the same "
        "order, or make the calls outside of it",
    )


def explain_call_of_some(
    inspection: Inspection, ended: tuple[int, ...], waiting: Sequence[int], position: Position
) -> Explanation | None:
    """Explain a call that only a minority makes, while the others come to their end without it."""
    call = inspection.call_at(waiting[0], position) if waiting else None
    if call is None or any_other_made(inspection, call, waiting):
        return None
    condition = condition_of(inspection, call)
    if len(waiting) >= len(ended) and not names_a_rank(condition):
        return None
    odd = waiting if len(waiting) < len(ended) else ended
    under = f", under `if {condition.head}`" if condition else ""
    known = inspection.communicator(position.communicator)
    only = "only " if known is None or {*waiting, *ended} >= {*known.ranks} else ""  # else others may still come
    return Explanation(
        ranks=tuple(sorted(odd)),
        summary=f"{only}{name_ranks(waiting)} {verb(waiting, 'makes', 'make')} the {call_name(call)} at {call.site}"
        f"{under}; {name_ranks(ended)} ended without it",
        cause=Cause.RANK_CONDITIONAL_CALL,
        advice=f"let every rank make the {call_name(call)} at {call.site}, or none",
    )
