"""A call that some ranks alone make, and no `if` around it tells why: a callback, a hook or a method that others lack.

What is certain is said: that no other rank has made it. Where ranks may also have come to it at another time than the
others, that is offered as well.
"""

from __future__ import annotations

from collections.abc import Mapping

from paceline.errors import group_ranks
from paceline.guard.verdict.causes.conditional_call import any_other_made
from paceline.guard.verdict.causes.deviation import Deviation
from paceline.guard.verdict.causes.uneven_loop import EVEN_STEPS
from paceline.guard.verdict.finding import Cause, Explanation
from paceline.guard.verdict.first_difference import line_of
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.snapshot import Call
from paceline.guard.verdict.source.related_lines import frames_of_call, shared_line
from paceline.guard.verdict.source.user_source import LineRelation, SourceBlock
from paceline.guard.verdict.wording import call_name, name_ranks, verb


def explain_call_of_one_side(
    inspection: Inspection, deviation: Deviation, relation: LineRelation | None
) -> list[Explanation]:
    """Explain odd ranks in a call that nobody else has made; nothing if others may only not have come to it yet."""
    usual, odd = deviation.usual_call, deviation.odd_call
    if deviation.also_odd or any_other_made(inspection, odd, deviation.odd) or _was_made_before(inspection, deviation):
        return []
    goes_on = line_of(usual) in deviation.past  # the others have been through what comes between two of these calls
    if relation is not None and relation.first_loop is None and relation.fork is None and goes_on:
        return [_explain_alone(deviation)]
    chosen = shared_line(inspection, usual, odd)
    if chosen is not None:
        return [_explain_items(deviation, chosen), _explain_alone(deviation)]
    if goes_on and _is_called_within(usual, odd):
        return [_explain_alone(deviation), _explain_early(deviation)]
    return []


def explain_items_of_a_loop(inspection: Inspection, calls: Mapping[int, Call]) -> list[Explanation]:
    """Explain ranks on different communicators whose calls come from functions that one loop goes through."""
    by_line = group_ranks({rank: line_of(call) for rank, call in calls.items()})
    firsts = [calls[ranks[0]] for _, ranks in by_line]
    loops = [shared_line(inspection, firsts[0], call) for call in firsts[1:]]
    if not loops or any(loop is None or loop != loops[0] for loop in loops) or loops[0] is None:
        return []
    texts = ", ".join(
        f"{name_ranks(ranks)} to {call_name(calls[ranks[0]])} at {calls[ranks[0]].site}" for _, ranks in by_line
    )
    return [_explain_loop(loops[0], tuple(sorted(calls)), texts)]


def _was_made_before(inspection: Inspection, deviation: Deviation) -> bool:
    """Say whether odd ranks have made this call also before what is remembered: then others may have made it too."""
    odd = deviation.odd_call
    state = inspection.snapshot.state(deviation.odd[0])
    remembered = sum(line_of(call) == line_of(odd) for call in state.history) if state is not None else 0
    return odd.at_site > remembered


def _is_called_within(outer: Call, inner: Call) -> bool:
    """Say whether a call was made by a function that was called, by a library, from the line of another call."""
    frames, longer = frames_of_call(outer), frames_of_call(inner)
    return bool(outer.library) and len(longer) > len(frames) and longer[: len(frames)] == frames


def _explain_items(deviation: Deviation, loop: SourceBlock) -> Explanation:
    sides = ((deviation.usual, deviation.usual_call), (deviation.odd, deviation.odd_call))
    texts = ", ".join(f"{name_ranks(ranks)} to {call_name(call)} at {call.site}" for ranks, call in sides)
    return _explain_loop(loop, deviation.out_of_line, texts)


def _explain_loop(loop: SourceBlock, ranks: tuple[int, ...], texts: str) -> Explanation:
    place = f"`{loop.head}` at {loop.file}:{loop.line}"
    return Explanation(
        ranks=ranks,
        summary=f"the loop {place} leads ranks to different calls: {texts}",
        cause=Cause.CALL_ORDER,
        advice=f"let every rank go through the loop {place} with the same items in the same order",
    )


def _explain_alone(deviation: Deviation) -> Explanation:
    call, odd = deviation.odd_call, deviation.odd
    name = f"{call_name(call)} {deviation.place(call)}"
    caller = f" from {call.callers[0]}" if call.callers else ""
    then = f"from there on {verb(odd, 'its', 'their')} calls pair up with the wrong calls of the other ranks"
    if deviation.is_across:
        then = f"{verb(odd, 'it waits', 'they wait')} there for the other ranks, which wait elsewhere"
    return Explanation(
        ranks=deviation.out_of_line,
        summary=f"{name_ranks(odd)} {verb(odd, 'makes', 'make')} the {name}, which no other rank has made; {then}",
        cause=Cause.RANK_CONDITIONAL_CALL,
        advice=f"let every rank make the {name}, or none: find out what leads {name_ranks(odd)} alone to it{caller}, "
        "such as a callback or a method that the other ranks do not have",
    )


def _explain_early(deviation: Deviation) -> Explanation:
    """Explain odd ranks that a library may have led out of its loop, to a function of the user's."""
    usual, odd = deviation.usual_call, deviation.odd_call
    made = sum(line == line_of(usual) for line in deviation.past)
    return Explanation(
        ranks=deviation.out_of_line,
        summary=f"{name_ranks(deviation.odd)} came to {call_name(odd)} {deviation.place(odd)} after {made} "
        f"{'call' if made == 1 else 'calls'} of {call_name(usual)} {deviation.place(usual)}, "
        f"{name_ranks(deviation.usual)} {verb(deviation.usual, 'makes', 'make')} one more",
        cause=Cause.UNEVEN_STEPS,
        advice=EVEN_STEPS,
    )


__all__ = ["explain_call_of_one_side", "explain_items_of_a_loop"]
